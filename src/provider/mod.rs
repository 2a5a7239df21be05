//! What an adapter is: the trait, what it declares of itself, and what it is handed.
//!
//! Owns the wire: every byte to and from a provider. Decides nothing about when a provider is asked.

mod brevo;
mod capabilities;
pub mod http;
mod mailgun;
mod postmark;
pub mod registry;
mod resend;
mod sendgrid;
mod ses;
pub mod smtp;
mod tls;
mod web;

pub use capabilities::{AttachmentNames, Capabilities, Lack};
pub use tls::TlsError;
pub use web::{SettingsError, WebProvider};

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::{
    delivery::{Health, Outcome, ProviderName},
    message::{Message, RecipientIndex},
};

/// An account at a sender of email.
///
/// An adapter has no error type: whatever happens is an [`Outcome`], so nothing slips past failover. It is dropped while it
/// sends only when the process stops and the time for that is up; it keeps its own timeouts, ends by the deadline, and
/// says how far it came.
pub trait Provider: Send + Sync {
    /// Its name in the settings.
    fn name(&self) -> &ProviderName;

    /// What it can carry.
    fn capabilities(&self) -> &Capabilities;

    /// Hands the message over, for those recipients only.
    fn send(&self, submission: Submission) -> BoxFuture<'_, Outcome>;

    /// Asks the provider, by a cheap authenticated call that sends nothing, whether our account is set up: what it says of
    /// the provider, within the timeout of the settings. [`Health::Healthy`]: messages can be offered again.
    /// [`Health::Misconfigured`]: it is not. Anything else: this call could not tell, only a message can. `None` for a
    /// kind that has no such call.
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
