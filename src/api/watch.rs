//! `WatchStatus`: what is sent to whoever watches a message, and when that ends.
//!
//! Owns no look at the outbox: one for all who watch is made beside, in `watchers`.

use std::sync::Arc;

use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use http::HeaderMap;
use tonic::Status;

use super::{
    caller,
    email::EmailApi,
    standing::read_id,
    status,
    watchers::{Found, Watcher},
};
use crate::{
    message::{ClientId, MessageId},
    outbox::{MessageStatus, StatusVersion},
    proto::v1 as pb,
};

/// What is sent: where the message stands, or why nothing more is told.
pub(super) type Told = Result<pb::WatchStatusResponse, Status>;

/// A message that a client watches.
struct Watch {
    api: EmailApi,
    client: ClientId,
    id: MessageId,
    until_failed: bool,
    watcher: Watcher,
    /// As what the client has seen it.
    seen: Option<StatusVersion>,
}

impl EmailApi {
    /// Watches a message. Answers once its present state is known.
    pub(super) async fn watch(
        &self,
        headers: &HeaderMap,
        request: pb::WatchStatusRequest,
    ) -> Result<BoxStream<'static, Told>, Status> {
        let client = caller::client(headers)?;
        let id = read_id(&request.message_id)?;
        let watcher = self.watchers.watch(id).ok_or_else(|| status::too_many_watchers(self.backend.max_watchers))?;
        let api = self.clone();
        let mut watch = Watch { api, client, id, until_failed: request.until_failed, watcher, seen: None };
        let present = watch.next().await?;
        let goes_on = (!watch.ends_with(&present)).then_some(watch);
        let present = self.response(&present);
        Ok(stream::once(async { Ok(present) }).chain(stream::unfold(goes_on, after)).boxed())
    }

    fn response(&self, message: &MessageStatus) -> pb::WatchStatusResponse {
        let now = self.backend.outbox.clock().now();
        pb::WatchStatusResponse { message: Some(self.backend.told(message.clone(), now)) }
    }
}

/// What comes next, and who goes on watching.
async fn after(watch: Option<Watch>) -> Option<(Told, Option<Watch>)> {
    let mut watch = watch?;
    match watch.next().await {
        Ok(message) => {
            let response = watch.api.response(&message);
            let goes_on = (!watch.ends_with(&message)).then_some(watch);
            Some((Ok(response), goes_on))
        }
        Err(status) => Some((Err(status), None)),
    }
}

impl Watch {
    /// Waits for the next change. A database that is away matters only to whoever has not seen the message yet.
    async fn next(&mut self) -> Result<Arc<MessageStatus>, Status> {
        loop {
            match self.watcher.next().await {
                None => return Err(status::stopping()),
                Some(Found::Nothing) => return Err(self.api.backend.not_there(self.id)),
                Some(Found::Message(message, _)) if message.client != self.client => {
                    return Err(self.api.backend.not_there(self.id));
                }
                Some(Found::Message(message, version)) if self.seen.as_ref() != Some(&version) => {
                    self.seen = Some(version);
                    return Ok(message);
                }
                Some(Found::Unreadable(error)) => return Err(status::outbox(&error)),
                Some(Found::Failed(error)) if self.seen.is_none() => return Err(status::outbox(&error)),
                Some(Found::Message(..) | Found::Failed(_)) => {}
            }
        }
    }

    fn ends_with(&self, message: &MessageStatus) -> bool {
        message.status.is_finished() || (self.until_failed && message.status.is_failed())
    }
}
