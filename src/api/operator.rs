//! `OperatorService`: its calls exist, so that clients can be built against them, and answer UNIMPLEMENTED.
//!
//! Owns nothing yet.

use tonic::{Request, Response, Status};

use super::status;
use crate::proto::v1::{self as pb, operator_service_server::OperatorService};

/// The service for those who run Postrider.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorApi;

#[tonic::async_trait]
impl OperatorService for OperatorApi {
    async fn list_messages(
        &self,
        _: Request<pb::ListMessagesRequest>,
    ) -> Result<Response<pb::ListMessagesResponse>, Status> {
        Err(status::call_not_implemented("ListMessages"))
    }

    async fn get_message(&self, _: Request<pb::GetMessageRequest>) -> Result<Response<pb::GetMessageResponse>, Status> {
        Err(status::call_not_implemented("GetMessage"))
    }

    async fn retry_messages(
        &self,
        _: Request<pb::RetryMessagesRequest>,
    ) -> Result<Response<pb::RetryMessagesResponse>, Status> {
        Err(status::call_not_implemented("RetryMessages"))
    }

    async fn cancel_messages(
        &self,
        _: Request<pb::CancelMessagesRequest>,
    ) -> Result<Response<pb::CancelMessagesResponse>, Status> {
        Err(status::call_not_implemented("CancelMessages"))
    }

    async fn erase_messages(
        &self,
        _: Request<pb::EraseMessagesRequest>,
    ) -> Result<Response<pb::EraseMessagesResponse>, Status> {
        Err(status::call_not_implemented("EraseMessages"))
    }

    async fn get_overview(
        &self,
        _: Request<pb::GetOverviewRequest>,
    ) -> Result<Response<pb::GetOverviewResponse>, Status> {
        Err(status::call_not_implemented("GetOverview"))
    }

    async fn list_providers(
        &self,
        _: Request<pb::ListProvidersRequest>,
    ) -> Result<Response<pb::ListProvidersResponse>, Status> {
        Err(status::call_not_implemented("ListProviders"))
    }

    async fn set_provider_mode(
        &self,
        _: Request<pb::SetProviderModeRequest>,
    ) -> Result<Response<pb::SetProviderModeResponse>, Status> {
        Err(status::call_not_implemented("SetProviderMode"))
    }

    async fn set_lane_mode(
        &self,
        _: Request<pb::SetLaneModeRequest>,
    ) -> Result<Response<pb::SetLaneModeResponse>, Status> {
        Err(status::call_not_implemented("SetLaneMode"))
    }
}
