//! Where a message stands.
//!
//! Owns the words; how a message comes from one to the next is the policy's.

use std::fmt;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Accepted, never tried. The dispatcher acts next, once it is due.
    NotYetSent,
    /// Taken by a dispatcher under a lease. That dispatcher acts next; any, once the lease has run out.
    InProcess,
    /// The last round failed in a way that may pass. The dispatcher acts next, once it is due.
    RequiredResend,
    /// Failed in a way that will not pass: no recipient was accepted and none is left to try. A person acts next.
    FailedNotRetryable,
    /// Tried the allowed number of rounds, or waited the allowed time. A person acts next.
    FailedRetriesExhausted,
    /// May have been sent, and the caller asked not to risk a duplicate. A person acts next.
    FailedOutcomeUnknown,
    /// Its `expire_at` passed before any attempt could have sent it.
    Expired,
    /// Called off before it was sent.
    Canceled,
    /// Every recipient is finished and at least one was accepted by a provider.
    SuccessSent,
}

impl Status {
    /// Every status, in the order of a message's life.
    pub const ALL: [Status; 9] = [
        Status::NotYetSent,
        Status::InProcess,
        Status::RequiredResend,
        Status::FailedNotRetryable,
        Status::FailedRetriesExhausted,
        Status::FailedOutcomeUnknown,
        Status::Expired,
        Status::Canceled,
        Status::SuccessSent,
    ];

    /// The word used in SQL, logs, metrics and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::NotYetSent => "NOT_YET_SENT",
            Status::InProcess => "IN_PROCESS",
            Status::RequiredResend => "REQUIRED_RESEND",
            Status::FailedNotRetryable => "FAILED_NOT_RETRYABLE",
            Status::FailedRetriesExhausted => "FAILED_RETRIES_EXHAUSTED",
            Status::FailedOutcomeUnknown => "FAILED_OUTCOME_UNKNOWN",
            Status::Expired => "EXPIRED",
            Status::Canceled => "CANCELED",
            Status::SuccessSent => "SUCCESS_SENT",
        }
    }

    /// The status of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Whether nothing more happens to the message: it has left `pending`.
    pub fn is_finished(self) -> bool {
        matches!(self, Status::Expired | Status::Canceled | Status::SuccessSent)
    }

    /// Whether a person has to look.
    pub fn is_failed(self) -> bool {
        matches!(self, Status::FailedNotRetryable | Status::FailedRetriesExhausted | Status::FailedOutcomeUnknown)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
