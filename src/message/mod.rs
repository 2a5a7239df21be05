//! What is sent: the message and its parts, parsed once at the edge, and its MIME form.
//!
//! Owns no decision about whether a message may be sent (that is [`crate::policy`]) nor what becomes of it.

mod address;
mod attachment;
mod clock;
mod email;
mod id;
pub mod mime;

use std::{fmt, sync::Arc};

use time::OffsetDateTime;

pub use address::{AddressError, EmailAddress, Mailbox};
pub use attachment::{Attachment, MediaType, MediaTypeError};
pub use clock::Clock;
pub use email::{Email, Header, RecipientIndex};
pub use id::{MessageId, MessageIdError};

/// A message as it was accepted. Written once, never changed.
#[derive(Clone)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Who sent it.
    pub client: ClientId,
    /// When it was accepted, by the database's clock.
    pub accepted_at: OffsetDateTime,
    /// What ties it to the caller's own work.
    pub correlation_id: String,
    /// The trace of the call that brought it.
    pub trace: TraceContext,
    /// Which share of the dispatchers it gets.
    pub priority: Priority,
    /// What to do when nobody can know whether it was sent.
    pub unknown_outcome: UnknownOutcome,
    /// What is to be sent.
    pub email: Email,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("id", &self.id).field("client", &self.client).finish_non_exhaustive()
    }
}

/// The name of a client: who calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Arc<str>);

impl ClientId {
    /// The client of that name. The API checks the name before it comes here.
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which share of the dispatchers a message gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// A person waits for it.
    High,
    /// The usual.
    Normal,
    /// Thousands at once.
    Bulk,
}

impl Priority {
    /// Every priority, the most urgent first.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Bulk];

    /// The word used in SQL, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::High => "HIGH",
            Priority::Normal => "NORMAL",
            Priority::Bulk => "BULK",
        }
    }

    /// The priority of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.as_str() == word)
    }
}

/// What to do with a message when nobody can know whether a provider took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownOutcome {
    /// Send it again, first to the same provider.
    Resend,
    /// Leave it to a person.
    Hold,
}

/// The W3C trace context of the call that brought a message: kept with it, so that attempts days later belong to the
/// caller's trace. Both parts are empty where there was none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// The header `traceparent`.
    pub traceparent: String,
    /// The header `tracestate`.
    pub tracestate: String,
}
