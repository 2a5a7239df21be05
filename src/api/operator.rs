//! `OperatorService`: what each call does. One that does nothing yet exists, so that clients can be built against it, and
//! answers UNIMPLEMENTED.
//!
//! Owns the calls alone: the figures are the outbox's, and what is done with messages stands in the files beside.

use tonic::{Request, Response, Status};

use super::{email::Backend, from_proto, providers, status, to_proto};
use crate::{
    delivery::ProviderName,
    proto::v1::{self as pb, operator_service_server::OperatorService},
};

/// The service for those who run Postrider.
#[derive(Clone)]
pub struct OperatorApi {
    pub(super) backend: Backend,
}

impl OperatorApi {
    /// The service over that backend.
    pub fn new(backend: Backend) -> Self {
        Self { backend }
    }
}

#[tonic::async_trait]
impl OperatorService for OperatorApi {
    async fn list_messages(
        &self,
        request: Request<pb::ListMessagesRequest>,
    ) -> Result<Response<pb::ListMessagesResponse>, Status> {
        self.list(request.into_inner()).await.map(Response::new)
    }

    async fn get_message(
        &self,
        request: Request<pb::GetMessageRequest>,
    ) -> Result<Response<pb::GetMessageResponse>, Status> {
        self.message(&request.into_inner().message_id).await.map(Response::new)
    }

    async fn retry_messages(
        &self,
        request: Request<pb::RetryMessagesRequest>,
    ) -> Result<Response<pb::RetryMessagesResponse>, Status> {
        self.retry(request.into_inner()).await.map(Response::new)
    }

    async fn cancel_messages(
        &self,
        request: Request<pb::CancelMessagesRequest>,
    ) -> Result<Response<pb::CancelMessagesResponse>, Status> {
        self.cancel(request.into_inner()).await.map(Response::new)
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
        let asked = async { tokio::try_join!(self.backend.outbox.counts(), self.backend.outbox.oldest_due()) };
        let (counts, oldest_due) = asked.await.map_err(|error| status::outbox(&error))?;
        Ok(Response::new(to_proto::overview(&counts, &oldest_due)))
    }

    async fn list_providers(
        &self,
        _: Request<pb::ListProvidersRequest>,
    ) -> Result<Response<pb::ListProvidersResponse>, Status> {
        let states = self.backend.outbox.provider_states().await.map_err(|error| status::outbox(&error))?;
        let now = self.backend.outbox.clock().now();
        let providers = states.iter().map(|state| providers::provider(state, now)).collect();
        Ok(Response::new(pb::ListProvidersResponse { providers }))
    }

    async fn set_provider_mode(
        &self,
        request: Request<pb::SetProviderModeRequest>,
    ) -> Result<Response<pb::SetProviderModeResponse>, Status> {
        let pb::SetProviderModeRequest { provider, mode } = request.into_inner();
        let mode = providers::read_mode(mode)?;
        let set = self.backend.outbox.set_provider_mode(&ProviderName::new(&provider), mode).await;
        let Some(state) = set.map_err(|error| status::outbox(&error))? else {
            return Err(status::invalid_field("provider", "is one through which no process sends"));
        };
        tracing::info!(provider, mode = mode.as_str(), "a provider's mode was set");
        self.backend.wake.providers_changed();
        let provider = providers::provider(&state, self.backend.outbox.clock().now());
        Ok(Response::new(pb::SetProviderModeResponse { provider: Some(provider) }))
    }

    async fn set_lane_mode(
        &self,
        request: Request<pb::SetLaneModeRequest>,
    ) -> Result<Response<pb::SetLaneModeResponse>, Status> {
        let pb::SetLaneModeRequest { chain, priority, client, paused } = request.into_inner();
        let (priority, client) = from_proto::lane(priority, &client).map_err(status::invalid_request)?;
        let set = self.backend.outbox.set_lane_mode(&chain, priority, &client, paused).await;
        if !set.map_err(|error| status::outbox(&error))? {
            return Err(status::invalid_field("chain", "is known to no message and no process"));
        }
        tracing::info!(chain, priority = priority.as_str(), client = client.as_str(), paused, "a lane's mode was set");
        self.backend.wake.lanes_changed();
        Ok(Response::new(pb::SetLaneModeResponse { paused }))
    }
}
