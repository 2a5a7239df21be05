//! Accept of one message without an idempotency key.
//!
//! Owns the short way for it alone: what there is to say of many, or of keys, is said in `accept`.

use uuid::Uuid;

use super::{
    Outbox,
    accept::{Row, Terms, lines},
    content::{self, unknown_outcome_word},
    interval::interval,
};

impl Outbox {
    /// Stores a message, and gives its id if it is stored now. One statement; made again it stores nothing twice.
    pub(super) async fn store_one(&self, row: &Row<'_>, terms: Terms) -> sqlx::Result<Option<Uuid>> {
        let new = row.new;
        let message = &*new.message;
        let email = &message.email;
        let (token, provider) = row.claim.map(|(token, provider)| (token, provider.as_str())).unzip();
        sqlx::query_file_scalar!(
            "src/outbox/accept_one.sql",
            message.id.as_uuid(),
            message.client.as_str(),
            message.accepted_at,
            &new.chain,
            message.priority.as_str(),
            unknown_outcome_word(message.unknown_outcome),
            email.from.address.as_str(),
            lines(email.recipients().map(|(_, mailbox)| mailbox.address.as_str())),
            lines(email.tags.iter().map(String::as_str)),
            email.document_type.as_deref(),
            &message.correlation_id,
            &message.trace.traceparent,
            &message.trace.tracestate,
            row.content,
            row.lane.as_i32(),
            new.send_at,
            new.expire_at,
            content::VERSION,
            token,
            provider,
            interval(terms.lease),
            interval(terms.slack),
            new.give_up_at
        )
        .fetch_optional(&self.hot)
        .await
    }
}
