//! `SendEmail`: read, check, commit, answer.
//!
//! Owns the order of the steps; the chain is decided here once. An email that was accepted before is answered before it is
//! judged again.

use std::sync::Arc;

use http::HeaderMap;
use prost::Message as _;
use time::OffsetDateTime;
use tonic::Status;

use super::{
    caller,
    email::EmailApi,
    fingerprint::fingerprint,
    from_proto::{self, Order},
    status, to_proto,
};
use crate::{
    delivery,
    message::{ClientId, Message, MessageId},
    outbox::{Accepted, IdempotencyKey, NewMessage, Receipt},
    policy::{self, Policy, Routes, Violation},
    proto::v1 as pb,
    telemetry,
};

/// A request of more bytes than this is hashed and checked on a thread of its own, so that it holds no other call up.
pub(super) const LARGE_BYTES: usize = 256 * 1024;

/// A `SendEmail` as it was read.
pub(super) struct Read {
    pub(super) key: Option<IdempotencyKey>,
    /// What is to be accepted, or all that is wrong with it.
    pub(super) order: Result<Routed, Vec<Violation>>,
    pub(super) validate_only: bool,
}

/// What is to be accepted, and the chain that it takes.
pub(super) struct Routed {
    pub(super) order: Order,
    pub(super) chain: String,
}

/// By what a client's requests are judged.
#[derive(Clone)]
pub(super) struct Judge {
    pub(super) policy: Arc<Policy>,
    pub(super) routes: Routes,
    pub(super) client: ClientId,
    pub(super) now: OffsetDateTime,
}

impl EmailApi {
    /// Accepts one email.
    pub(super) async fn send(
        &self,
        headers: &HeaderMap,
        request: pb::SendEmailRequest,
    ) -> Result<pb::SendEmailResponse, Status> {
        let client = caller::client(headers)?;
        let now = self.backend.outbox.clock().now();
        let is_large = request.encoded_len() > LARGE_BYTES;
        let judge = self.judge(&client, now);
        match apart(is_large, move || judge.read(request)).await? {
            Read { key, order: Ok(routed), validate_only: false } => {
                let message = self.message(client, headers, key, routed, now);
                let span = tracing::Span::current();
                span.record("postrider.correlation_id", message.message.correlation_id.as_str());
                let (id, answer) = self.accept(message).await?;
                span.record("messaging.message.id", tracing::field::display(id));
                answer
            }
            read => {
                let recalled = self.recall(&client, &[&read]).await?.into_iter().next().flatten();
                unstored(read.order, recalled)
            }
        }
    }

    /// By what that client's requests are judged at that time.
    pub(super) fn judge(&self, client: &ClientId, now: OffsetDateTime) -> Judge {
        let (policy, routes) = (Arc::clone(&self.backend.policy), self.backend.routes.clone());
        Judge { policy, routes, client: client.clone(), now }
    }

    /// What became of the messages that have the keys of these requests. One that is refused today may be the repeat of
    /// one that was accepted: its `expire_at` has passed since, or the settings have changed.
    pub(super) async fn recall(&self, client: &ClientId, reads: &[&Read]) -> Result<Vec<Option<Accepted>>, Status> {
        let is_usable = |key: &&IdempotencyKey| policy::request::is_idempotency_key(&key.key);
        let usable: Vec<Option<&IdempotencyKey>> =
            reads.iter().map(|read| read.key.as_ref().filter(is_usable)).collect();
        let keys: Vec<&IdempotencyKey> = usable.iter().copied().flatten().collect();
        if keys.is_empty() {
            return Ok(vec![None; reads.len()]);
        }
        let recalled = self.backend.outbox.recall(client, &keys).await.map_err(|error| status::outbox(&error))?;
        let mut recalled = recalled.into_iter();
        Ok(usable.into_iter().map(|key| key.and_then(|_| recalled.next().flatten())).collect())
    }

    /// Gives the email its id, its time, and the words by which it is found again.
    pub(super) fn message(
        &self,
        client: ClientId,
        headers: &HeaderMap,
        idempotency: Option<IdempotencyKey>,
        Routed { order, chain }: Routed,
        now: OffsetDateTime,
    ) -> NewMessage {
        let id = MessageId::new_at(now);
        let trace = telemetry::accept_context(headers);
        let named = order.correlation_id.or_else(|| caller::correlation_id(headers, &trace));
        let send_at = order.send_at.map_or(now, |at| at.max(now));
        let longest_wait = self.backend.longest_wait.try_into().unwrap_or(time::Duration::MAX);
        let message = Message {
            id,
            client,
            accepted_at: now,
            correlation_id: named.unwrap_or_else(|| id.to_string()),
            trace,
            priority: order.priority,
            unknown_outcome: order.unknown_outcome,
            email: order.email,
        };
        NewMessage {
            message: Arc::new(message),
            chain,
            idempotency,
            scheduled_for: order.send_at,
            send_at,
            expire_at: order.expire_at,
            give_up_at: send_at.saturating_add(longest_wait),
        }
    }

    /// Commits the message, and gives the id of the one that there is now. When the caller goes away, or its deadline
    /// passes, what was begun is finished.
    pub(super) async fn accept(
        &self,
        message: NewMessage,
    ) -> Result<(MessageId, Result<pb::SendEmailResponse, Status>), Status> {
        let Receipt { id, accepted } =
            self.backend.intake.accept(message).await.map_err(|error| status::intake(&error))?;
        Ok(match accepted {
            Accepted::New => (id, Ok(new(id.to_string()))),
            Accepted::Duplicate { id, status } => (id, Ok(duplicate(id, status))),
            Accepted::KeyReused { id } => (id, Err(status::key_reused(id))),
        })
    }
}

impl Judge {
    /// Reads a request.
    pub(super) fn read(&self, request: pb::SendEmailRequest) -> Read {
        let key = Some(&request.idempotency_key).filter(|key| !key.is_empty());
        let key = key.map(|key| IdempotencyKey { key: key.clone(), fingerprint: fingerprint(&request) });
        let validate_only = request.validate_only;
        let order = from_proto::order(request, &self.policy, self.now).and_then(|order| {
            let chain = self.routes.lead(&self.client, order.priority, &order.email)?.to_owned();
            Ok(Routed { order, chain })
        });
        Read { key, order, validate_only }
    }
}

/// Does something that takes long on a thread of its own.
pub(super) async fn apart<T: Send + 'static>(
    takes_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    if takes_long { tokio::task::spawn_blocking(work).await.map_err(|_| status::panicked()) } else { Ok(work()) }
}

/// What is answered to a request that is not stored, since it is refused or only to be checked: where it repeats another,
/// that one's message.
pub(super) fn unstored(
    order: Result<Routed, Vec<Violation>>,
    recalled: Option<Accepted>,
) -> Result<pb::SendEmailResponse, Status> {
    match (recalled, order) {
        (Some(Accepted::Duplicate { id, status }), _) => Ok(duplicate(id, status)),
        (_, Err(violations)) => Err(status::invalid_request(violations)),
        (Some(Accepted::KeyReused { id }), Ok(_)) => Err(status::key_reused(id)),
        (Some(Accepted::New) | None, Ok(_)) => Ok(new(String::new())),
    }
}

fn new(message_id: String) -> pb::SendEmailResponse {
    pb::SendEmailResponse { message_id, status: pb::Status::NotYetSent.into(), deduplicated: false }
}

fn duplicate(id: MessageId, status: Option<delivery::Status>) -> pb::SendEmailResponse {
    let status = status.map_or(pb::Status::Unspecified, to_proto::status);
    pb::SendEmailResponse { message_id: id.to_string(), status: status.into(), deduplicated: true }
}
