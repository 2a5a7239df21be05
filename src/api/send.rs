//! `SendEmail`: read, check, commit, answer.
//!
//! Owns the order of the steps; the chain is decided here once. An email that was accepted before is answered before it is judged again.

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
    policy::{self, Violation},
    proto::v1 as pb,
    telemetry,
};

/// A request of more bytes than this is hashed and checked on a thread of its own, so that it holds no other call up.
const LARGE_BYTES: usize = 256 * 1024;

impl EmailApi {
    /// Accepts one email.
    pub(super) async fn send(
        &self,
        headers: &HeaderMap,
        request: pb::SendEmailRequest,
    ) -> Result<pb::SendEmailResponse, Status> {
        let client = caller::client(headers)?;
        let validate_only = request.validate_only;
        let now = self.backend.outbox.clock().now();
        let (key, order) = self.read(&client, request, now).await?;
        match order {
            Err(violations) => self.recall_or_refuse(&client, key, violations).await,
            Ok(_) if validate_only => self.validated(&client, key).await,
            Ok((order, chain)) => self.accept(self.message(client, headers, key, order, chain, now)).await,
        }
    }

    /// Reads the request: its key, and what is to be accepted, with the chain that it takes, or all that is wrong with
    /// it.
    async fn read(
        &self,
        client: &ClientId,
        request: pb::SendEmailRequest,
        now: OffsetDateTime,
    ) -> Result<(Option<IdempotencyKey>, Result<(Order, String), Vec<Violation>>), Status> {
        let (policy, routes, client) = (Arc::clone(&self.backend.policy), self.backend.routes.clone(), client.clone());
        let large = request.encoded_len() > LARGE_BYTES;
        let read = move || {
            let key = Some(&request.idempotency_key).filter(|key| !key.is_empty());
            let key = key.map(|key| IdempotencyKey { key: key.clone(), fingerprint: fingerprint(&request) });
            let order = from_proto::order(request, &policy, now).and_then(|order| {
                let chain = routes.lead(&client, order.priority, &order.email)?.to_owned();
                Ok((order, chain))
            });
            (key, order)
        };
        if large { tokio::task::spawn_blocking(read).await.map_err(|_| status::panicked()) } else { Ok(read()) }
    }

    /// A request that is refused today may be the repeat of one that was accepted: its `expire_at` has passed since, or
    /// the settings have changed. Its key tells.
    async fn recall_or_refuse(
        &self,
        client: &ClientId,
        key: Option<IdempotencyKey>,
        violations: Vec<Violation>,
    ) -> Result<pb::SendEmailResponse, Status> {
        let key = key.filter(|key| policy::request::is_idempotency_key(&key.key));
        match self.recall(client, key).await? {
            Some(Accepted::Duplicate { id, status }) => Ok(duplicate(id, status)),
            _ => Err(status::invalid_request(violations)),
        }
    }

    /// Answers as if the email were accepted.
    async fn validated(&self, client: &ClientId, key: Option<IdempotencyKey>) -> Result<pb::SendEmailResponse, Status> {
        match self.recall(client, key).await? {
            Some(Accepted::Duplicate { id, status }) => Ok(duplicate(id, status)),
            Some(Accepted::KeyReused { id }) => Err(status::key_reused(id)),
            Some(Accepted::New) | None => Ok(new(String::new())),
        }
    }

    async fn recall(&self, client: &ClientId, key: Option<IdempotencyKey>) -> Result<Option<Accepted>, Status> {
        let Some(key) = key else { return Ok(None) };
        self.backend.outbox.recall(client, &key).await.map_err(|error| status::outbox(&error))
    }

    /// Gives the email its id, its time, and the words by which it is found again.
    fn message(
        &self,
        client: ClientId,
        headers: &HeaderMap,
        idempotency: Option<IdempotencyKey>,
        order: Order,
        chain: String,
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

    /// Commits the message. When the caller goes away, or its deadline passes, what was begun is finished.
    async fn accept(&self, message: NewMessage) -> Result<pb::SendEmailResponse, Status> {
        let span = tracing::Span::current();
        span.record("postrider.correlation_id", message.message.correlation_id.as_str());
        let Receipt { id, accepted } =
            self.backend.intake.accept(message).await.map_err(|error| status::intake(&error))?;
        let (id, answer) = match accepted {
            Accepted::New => (id, Ok(new(id.to_string()))),
            Accepted::Duplicate { id, status } => (id, Ok(duplicate(id, status))),
            Accepted::KeyReused { id } => (id, Err(status::key_reused(id))),
        };
        span.record("messaging.message.id", tracing::field::display(id));
        answer
    }
}

fn new(message_id: String) -> pb::SendEmailResponse {
    pb::SendEmailResponse { message_id, status: pb::Status::NotYetSent.into(), deduplicated: false }
}

fn duplicate(id: MessageId, status: Option<delivery::Status>) -> pb::SendEmailResponse {
    let status = status.map_or(pb::Status::Unspecified, to_proto::status);
    pb::SendEmailResponse { message_id: id.to_string(), status: status.into(), deduplicated: true }
}
