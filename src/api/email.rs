//! `EmailService`: what each call does.
//!
//! Owns no step of accepting an email: those are in the file beside.

use std::{sync::Arc, time::Duration};

use futures_util::stream::Empty;
use http::HeaderMap;
use tonic::{Request, Response, Status};

use super::{caller, from_proto, status, to_proto, waiting};
use crate::{
    config::Retention,
    health::Board,
    outbox::{Intake, Outbox, Wake},
    policy::{Policy, Routes},
    proto::v1::{self as pb, email_service_server::EmailService},
};

/// What the API stands on.
#[derive(Clone)]
pub struct Backend {
    /// Where messages are found.
    pub outbox: Outbox,
    /// What may be sent.
    pub policy: Arc<Policy>,
    /// By which chain.
    pub routes: Routes,
    /// What keeps chains from sending.
    pub board: Board,
    /// Where new messages are committed.
    pub intake: Intake,
    /// By which dispatchers hear of what an operator changes.
    pub wake: Wake,
    /// How long a message may wait in all (`retry.longest_wait`).
    pub longest_wait: Duration,
    /// How long messages are kept.
    pub retention: Retention,
}

/// The service for those who send email.
#[derive(Clone)]
pub struct EmailApi {
    pub(super) backend: Backend,
}

impl EmailApi {
    /// The service over that backend.
    pub fn new(backend: Backend) -> Self {
        Self { backend }
    }

    /// Ends once no commit is under way any more, those included whose callers have gone.
    pub async fn commits_finished(&self) {
        self.backend.intake.finished().await;
    }

    async fn status(&self, headers: &HeaderMap, message_id: &str) -> Result<pb::GetStatusResponse, Status> {
        let client = caller::client(headers)?;
        let id = from_proto::message_id(message_id)
            .map_err(|error| status::invalid_field("message_id", format!("is {error}")))?;
        let Backend { outbox, board, retention, .. } = &self.backend;
        let found = outbox.status(&[id], Some(&client)).await.map_err(|error| status::outbox(&error))?;
        let now = outbox.clock().now();
        match found.into_iter().next() {
            Some(message) => {
                let waiting_for = waiting::waiting_for(&message, board, now);
                Ok(to_proto::message_status(message, waiting_for))
            }
            None if outbox.retention_passed(id, retention) => Err(status::retention_passed(id, retention.finished)),
            None => Err(status::message_not_found(id)),
        }
    }
}

#[tonic::async_trait]
impl EmailService for EmailApi {
    type WatchStatusStream = Empty<Result<pb::WatchStatusResponse, Status>>;

    async fn send_email(
        &self,
        request: Request<pb::SendEmailRequest>,
    ) -> Result<Response<pb::SendEmailResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.send(&metadata.into_headers(), request).await.map(Response::new)
    }

    async fn get_status(
        &self,
        request: Request<pb::GetStatusRequest>,
    ) -> Result<Response<pb::GetStatusResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.status(&metadata.into_headers(), &request.message_id).await.map(Response::new)
    }

    async fn send_email_batch(
        &self,
        _: Request<pb::SendEmailBatchRequest>,
    ) -> Result<Response<pb::SendEmailBatchResponse>, Status> {
        Err(status::call_not_implemented("SendEmailBatch"))
    }

    async fn batch_get_status(
        &self,
        _: Request<pb::BatchGetStatusRequest>,
    ) -> Result<Response<pb::BatchGetStatusResponse>, Status> {
        Err(status::call_not_implemented("BatchGetStatus"))
    }

    async fn watch_status(
        &self,
        _: Request<pb::WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        Err(status::call_not_implemented("WatchStatus"))
    }

    async fn cancel_email(
        &self,
        _: Request<pb::CancelEmailRequest>,
    ) -> Result<Response<pb::CancelEmailResponse>, Status> {
        Err(status::call_not_implemented("CancelEmail"))
    }
}
