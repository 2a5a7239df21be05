//! `GetStatus`, `BatchGetStatus` and `CancelEmail`: where messages stand, and that they go no further.
//!
//! Owns the answer for a message that is not there; what is answered of one that is follows from its row.

use std::collections::{HashMap, HashSet};

use http::HeaderMap;
use time::OffsetDateTime;
use tonic::{Code, Status};

use super::{
    batch::check_count,
    caller,
    email::{Backend, EmailApi},
    from_proto, status, to_proto, waiting,
};
use crate::{delivery, message::MessageId, outbox::MessageStatus, proto::v1 as pb};

impl EmailApi {
    /// Where one message stands.
    pub(super) async fn status(&self, headers: &HeaderMap, message_id: &str) -> Result<pb::GetStatusResponse, Status> {
        let client = caller::client(headers)?;
        let id = read_id(message_id)?;
        let found = self.backend.outbox.status(&[id], Some(&client)).await.map_err(|error| status::outbox(&error))?;
        let now = self.backend.outbox.clock().now();
        found
            .into_iter()
            .next()
            .map(|message| self.backend.told(message, now))
            .ok_or_else(|| self.backend.not_there(id))
    }

    /// Where many messages stand, and of those that are not there why.
    pub(super) async fn batch_status(
        &self,
        headers: &HeaderMap,
        request: pb::BatchGetStatusRequest,
    ) -> Result<pb::BatchGetStatusResponse, Status> {
        let client = caller::client(headers)?;
        check_count("message_ids", request.message_ids.len())?;
        let asked = distinct(request.message_ids);
        let ids: Vec<MessageId> = asked.iter().filter_map(|(_, id)| id.as_ref().ok().copied()).collect();
        let found = self.backend.outbox.statuses(&ids, Some(&client)).await.map_err(|error| status::outbox(&error))?;
        let now = self.backend.outbox.clock().now();
        let mut found: HashMap<MessageId, _> = found.into_iter().map(|told| (told.id, told.status)).collect();
        let mut response = pb::BatchGetStatusResponse::default();
        for (message_id, id) in asked {
            let told = id.and_then(|id| match found.remove(&id) {
                Some(message) => message.map_err(|error| status::outbox(&error)),
                None => Err(self.backend.not_there(id)),
            });
            match told {
                Ok(message) => response.messages.push(self.backend.told(message, now)),
                Err(error) => {
                    if error.code() == Code::NotFound {
                        response.not_found.push(message_id.clone());
                    }
                    response.errors.push(pb::MessageError { message_id, error: Some(status::of_item(&error)) });
                }
            }
        }
        Ok(response)
    }

    /// Calls a message off.
    pub(super) async fn cancel(
        &self,
        headers: &HeaderMap,
        message_id: &str,
    ) -> Result<pb::CancelEmailResponse, Status> {
        let client = caller::client(headers)?;
        let id = read_id(message_id)?;
        let standing =
            self.backend.outbox.cancel(&[id], Some(&client)).await.map_err(|error| status::outbox(&error))?;
        let standing = standing.into_iter().next().flatten().ok_or_else(|| self.backend.not_there(id))?;
        tracing::debug!(message_id = %id, status = standing.as_str(), "a message was called off");
        Ok(pb::CancelEmailResponse {
            status: to_proto::status(standing).into(),
            may_have_been_sent: !matches!(standing, delivery::Status::Canceled | delivery::Status::Expired),
        })
    }
}

impl Backend {
    /// What is told of a message.
    pub(super) fn told(&self, message: MessageStatus, now: OffsetDateTime) -> pb::GetStatusResponse {
        let waiting_for = waiting::waiting_for(&message, &self.board, now);
        to_proto::message_status(message, waiting_for)
    }

    /// What is answered where this client has no such message.
    pub(super) fn not_there(&self, id: MessageId) -> Status {
        let retention = &self.retention;
        match self.outbox.retention_passed(id, retention) {
            true => status::retention_passed(id, retention.finished),
            false => status::message_not_found(id),
        }
    }
}

/// The messages that these ids name, each once.
fn distinct(message_ids: Vec<String>) -> Vec<(String, Result<MessageId, Status>)> {
    let mut met = HashSet::new();
    let read = message_ids.into_iter().map(|text| {
        let id = read_id(&text);
        (text, id)
    });
    let by_id =
        |(text, id): &(String, Result<MessageId, Status>)| id.as_ref().map_or(text.clone(), MessageId::to_string);
    read.filter(|one| met.insert(by_id(one))).collect()
}

/// Reads the id of a message.
pub(super) fn read_id(text: &str) -> Result<MessageId, Status> {
    from_proto::message_id(text).map_err(|error| status::invalid_field("message_id", format!("is {error}")))
}
