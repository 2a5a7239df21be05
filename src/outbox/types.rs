//! What goes into and comes out of the outbox.
//!
//! Owns no statement.

use std::{sync::Arc, time::Duration};

use time::OffsetDateTime;

use crate::{
    delivery::{Attempt, Class, Next, ProviderName, Scope, Skip, Status, Verdict},
    message::{ClientId, EmailAddress, Message, MessageId, Priority, RecipientIndex},
};

/// A message to accept.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The message, with its id and accepted time.
    pub message: Arc<Message>,
    /// The chain it will be offered to.
    pub chain: String,
    /// The caller's key, if there is one.
    pub idempotency: Option<IdempotencyKey>,
    /// When it is to be sent at the earliest, where the caller asked for a time.
    pub scheduled_for: Option<OffsetDateTime>,
    /// When it is first due.
    pub send_at: OffsetDateTime,
    /// When it expires.
    pub expire_at: Option<OffsetDateTime>,
    /// When it has waited the allowed time.
    pub give_up_at: OffsetDateTime,
}

/// The caller's key for a message, and the request it was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key, up to 255 bytes. Unique to the client.
    pub key: String,
    /// What identifies the request: a hash of it as it was parsed, behind a version.
    pub fingerprint: Vec<u8>,
}

/// What became of a message that was to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is committed.
    New,
    /// The key was used for the same request before; this is that message.
    Duplicate {
        /// The message of that key.
        id: MessageId,
        /// Where it stands; `None` if it has been removed since.
        status: Option<Status>,
    },
    /// The key was used for another request; nothing was stored.
    KeyReused {
        /// The message of that key.
        id: MessageId,
    },
}

/// The right to one message until a time: nobody else's write-back counts while it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The message.
    pub id: MessageId,
    /// What this claim is recognised by: random, so that no two claims share it.
    pub token: i64,
}

/// Whether a lease still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It does.
    Held {
        /// Whether somebody asked to call the message off.
        cancel_requested: bool,
    },
    /// It does not: the message has gone on without us.
    Lost,
}

/// What a round came to, to be written back.
#[derive(Clone, Debug, PartialEq)]
pub struct Settlement {
    /// The lease under which it was sent.
    pub lease: Lease,
    /// The round, from 1.
    pub round: u32,
    /// The attempts that have not been written down yet.
    pub attempts: Vec<Attempt>,
    /// The providers considered since the last attempt, or in a round without one, and not asked.
    pub skipped: Vec<Skip>,
    /// Whether any attempt of the round, written down or not, left a recipient accepted.
    pub accepted: bool,
    /// When the first attempt of unknown outcome of the round began.
    pub unknown_since: Option<OffsetDateTime>,
    /// Whether any attempt of the round, written down or not, spends it.
    pub round_spent: bool,
    /// What happens next.
    pub next: Next,
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was written.
    Done,
    /// The lease no longer held: the attempts were added to the history as late outcomes. Recipients that they left
    /// accepted are not offered again, and a message that has no others open is SUCCESS_SENT.
    Late,
    /// The message no longer exists.
    Gone,
}

/// Where a message stands, and how it came there.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageStatus {
    /// The message.
    pub id: MessageId,
    /// Who sent it.
    pub client: ClientId,
    /// Where it stands.
    pub status: Status,
    /// When it was accepted.
    pub accepted_at: OffsetDateTime,
    /// When a dispatcher looks at it next.
    pub due_at: Option<OffsetDateTime>,
    /// When it was finished.
    pub finished_at: Option<OffsetDateTime>,
    /// The rounds spent.
    pub rounds: u32,
    /// The chain it is offered to; once it is finished the one it was accepted for.
    pub chain: String,
    /// The priority of the lane it waits in; `None` once it is finished.
    pub priority: Option<Priority>,
    /// Whether an operator has paused that lane.
    pub is_paused: bool,
    /// The providers that the last round considered since its last attempt, and did not ask.
    pub skipped: Vec<Skip>,
    /// The provider that alone may be asked, if there is one: it may have the message, which must not be sent twice.
    pub bound_to: Option<ProviderName>,
    /// The provider that the row names, while it waits for one.
    pub provider: Option<ProviderName>,
    /// What ties it to the caller's own work.
    pub correlation_id: String,
    /// What it carries, in the caller's word.
    pub document_type: Option<String>,
    /// Its recipients: to, cc, bcc.
    pub recipients: Vec<EmailAddress>,
    /// Its history, oldest first.
    pub events: Vec<Event>,
}

/// A line of a message's history.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When it began.
    pub at: OffsetDateTime,
    /// How long the provider took, for an attempt.
    pub duration: Option<Duration>,
    /// The round it belongs to, from 1, for an attempt.
    pub round: Option<u32>,
    /// The provider.
    pub provider: Option<ProviderName>,
    /// The class for the message as a whole.
    pub class: Option<Class>,
    /// Its scope.
    pub scope: Option<Scope>,
    /// The code.
    pub code: Option<String>,
    /// What the provider said.
    pub detail: Option<String>,
    /// The provider's own id of the message.
    pub provider_message_id: Option<String>,
    /// The verdict for each recipient that was offered.
    pub verdicts: Vec<(RecipientIndex, Verdict)>,
    /// The providers that were considered before and not asked.
    pub skipped: Vec<Skip>,
}

/// What a line of the history records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A provider was asked.
    Attempt,
    /// Taken over from a dispatcher whose lease had run out.
    Takeover,
    /// Called off.
    Canceled,
    /// Its `expire_at` passed.
    Expired,
    /// An operator asked for a new count of rounds.
    Retried,
    /// An outcome that arrived after the message had gone on without it.
    LateOutcome,
    /// The allowed time of waiting passed.
    GaveUp,
    /// What the provider reported afterwards.
    Reported,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [EventKind; 8] = [
        EventKind::Attempt,
        EventKind::Takeover,
        EventKind::Canceled,
        EventKind::Expired,
        EventKind::Retried,
        EventKind::LateOutcome,
        EventKind::GaveUp,
        EventKind::Reported,
    ];

    /// The word used in SQL, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Attempt => "ATTEMPT",
            EventKind::Takeover => "TAKEOVER",
            EventKind::Canceled => "CANCELED",
            EventKind::Expired => "EXPIRED",
            EventKind::Retried => "RETRIED",
            EventKind::LateOutcome => "LATE_OUTCOME",
            EventKind::GaveUp => "GAVE_UP",
            EventKind::Reported => "REPORTED",
        }
    }

    /// The kind of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Why the outbox did not do it, by what the caller does next. Never carries a database error's DETAIL, which holds
/// the values of rows.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OutboxError {
    /// The database cannot be reached, or went away in the middle: the same call may be made again.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database does not let us in, or is not what we expect: credentials, rights, tables. A person has to see to
    /// it; then the same call may be made again.
    #[error("the database is not set up for us: {0}")]
    NotSetUp(String),
    /// The database did not take a value as it was: making the same call again will not help.
    #[error("the database refused the statement: {0}")]
    Refused(String),
    /// What was read is not what was written: it is damaged.
    #[error("the stored message cannot be read: {0}")]
    Unreadable(String),
    /// The message was written by a newer version of this program, as happens while an update goes from process to
    /// process. It is a good message: leave it to a newer process by [`postpone`](super::Outbox::postpone).
    #[error("the stored message is of version {stored}, this program reads up to {reads}")]
    NewerVersion {
        /// The version it is stored in.
        stored: i16,
        /// The newest version that this program reads.
        reads: i16,
    },
}
