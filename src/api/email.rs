//! `EmailService`: what each call does.
//!
//! Owns no step of any: those are in the files beside.

use std::{sync::Arc, time::Duration};

use futures_util::stream::BoxStream;
use tonic::{Request, Response, Status};

use super::{watch::Told, watchers::Watchers};
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
    /// How many may watch messages at once.
    pub max_watchers: usize,
}

/// The service for those who send email.
#[derive(Clone)]
pub struct EmailApi {
    pub(super) backend: Backend,
    pub(super) watchers: Watchers,
}

impl EmailApi {
    /// The service over that backend.
    pub fn new(backend: Backend) -> Self {
        let watchers = Watchers::new(backend.outbox.clone(), backend.max_watchers);
        Self { backend, watchers }
    }

    /// Looks for those who watch messages, until they are [ended](Self::end_watches).
    pub(super) async fn look_for_watchers(&self) {
        self.watchers.run().await;
    }

    /// Ends the streams of those who watch messages, and lets no other begin.
    pub(super) fn end_watches(&self) {
        self.watchers.stop();
    }

    /// Ends once no commit is under way any more, those included whose callers have gone.
    pub async fn commits_finished(&self) {
        self.backend.intake.finished().await;
    }
}

#[tonic::async_trait]
impl EmailService for EmailApi {
    type WatchStatusStream = BoxStream<'static, Told>;

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
        request: Request<pb::SendEmailBatchRequest>,
    ) -> Result<Response<pb::SendEmailBatchResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.send_batch(&metadata.into_headers(), request).await.map(Response::new)
    }

    async fn batch_get_status(
        &self,
        request: Request<pb::BatchGetStatusRequest>,
    ) -> Result<Response<pb::BatchGetStatusResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.batch_status(&metadata.into_headers(), request).await.map(Response::new)
    }

    async fn watch_status(
        &self,
        request: Request<pb::WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.watch(&metadata.into_headers(), request).await.map(Response::new)
    }

    async fn cancel_email(
        &self,
        request: Request<pb::CancelEmailRequest>,
    ) -> Result<Response<pb::CancelEmailResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.cancel(&metadata.into_headers(), &request.message_id).await.map(Response::new)
    }
}
