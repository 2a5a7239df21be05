//! What an adapter is: the trait, what it declares of itself, and what it is handed.
//!
//! Owns the wire: every byte to and from a provider. Decides nothing about when a provider is asked.

pub mod http;
pub mod registry;
pub mod smtp;
mod tls;

pub use tls::TlsError;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    delivery::{Health, Outcome, ProviderName},
    message::{Message, RecipientIndex},
};

/// An account at a sender of email.
///
/// An adapter has no error type: whatever happens is an [`Outcome`], so nothing slips past failover. It is
/// dropped while it sends only when the process stops and the time for that is up; it keeps its own timeouts, ends by the deadline, and says how far it came.
pub trait Provider: Send + Sync {
    /// Its name in the settings.
    fn name(&self) -> &ProviderName;

    /// What it can carry.
    fn capabilities(&self) -> &Capabilities;

    /// Hands the message over, for those recipients only.
    fn send(&self, submission: Submission) -> BoxFuture<'_, Outcome>;

    /// Makes a cheap authenticated call that sends nothing, and tells whether the account is set up: `Healthy` if it is,
    /// `Misconfigured` if it is not, anything else where that did not show. `None` where the provider has no such call.
    fn probe(&self) -> Option<BoxFuture<'_, Health>> {
        None
    }
}

/// What is handed to an adapter.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The message.
    pub message: Arc<Message>,
    /// The envelope: the recipients that are still open, at least one.
    pub recipients: Vec<RecipientIndex>,
    /// When the adapter must have ended.
    pub deadline: Instant,
    /// The `traceparent` of this attempt, empty where there is none.
    pub traceparent: String,
}

/// What a provider can carry. `None` means without limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The largest message, in bytes as the adapter encodes it. The adapter refuses what is larger; a message that is
    /// too large in any encoding is not even offered.
    pub max_bytes: Option<u64>,
    /// The most recipients of one message.
    pub max_recipients: Option<usize>,
    /// Whether the envelope is apart from the headers, so that only some of the recipients can be offered.
    pub envelope_apart: bool,
    /// Whether it shows images inside the HTML.
    pub inline_images: bool,
    /// Whether it carries non-ASCII local parts (RFC 6531).
    pub smtputf8: bool,
    /// For how long it recognises an idempotency key; `None` if it has none.
    pub idempotency: Option<Duration>,
}
