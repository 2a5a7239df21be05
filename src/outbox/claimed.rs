//! What a claim is asked, and what it gives.
//!
//! Owns the words; the statements are `claim`'s.

use std::time::Duration;

use time::OffsetDateTime;

use super::{LaneId, Lease};
use crate::{
    delivery::ProviderName,
    message::{RecipientIndex, UnknownOutcome},
};

/// Which messages to claim.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The lanes, in the order in which they are looked at.
    pub lanes: Vec<LaneClaim>,
    /// How many at most in all.
    pub limit: usize,
    /// How long the lease lasts.
    pub lease: Duration,
    /// How many rounds may be spent: a takeover spends one.
    pub max_rounds: u32,
    /// The providers that recognise a message by its key: what one of them may have is offered to it again under HOLD.
    pub idempotent: Vec<ProviderName>,
    /// Whether messages are taken over whose lease has run out.
    pub takes_over: bool,
}

/// What is wanted of one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneClaim {
    /// The lane.
    pub lane: LaneId,
    /// Its chain.
    pub chain: String,
    /// The provider of the chain that is asked first.
    pub provider: ProviderName,
    /// Messages that were due before are not looked at; `None`: all are.
    pub since: Option<OffsetDateTime>,
    /// How many at most.
    pub limit: usize,
}

/// What a claim came to.
#[derive(Clone, Debug)]
pub struct Claims {
    /// The messages taken.
    pub messages: Vec<Claimed>,
    /// How each lane was found that was looked at, in their order.
    pub lanes: Vec<LaneFound>,
    /// The database's time. Nothing that is due later was looked at.
    pub at: OffsetDateTime,
    /// Whether the statement was made again because its connection was lost: what the first try still held was passed
    /// over.
    pub made_again: bool,
}

impl Claims {
    /// Whether something was left behind.
    pub fn has_rest(&self) -> bool {
        self.lanes.iter().any(|lane| lane.rest != Rest::Nothing)
    }
}

/// How one lane was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFound {
    /// The lane.
    pub lane: LaneId,
    /// How many of its messages were met.
    pub found: usize,
    /// What is left.
    pub rest: Rest,
}

/// What a claim has left in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing that is due.
    Nothing,
    /// There may be more from that time on.
    From(OffsetDateTime),
}

/// A message that was claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The right to it.
    pub lease: Lease,
    /// Until when the lease lasts, by the database's clock.
    pub leased_until: OffsetDateTime,
    /// The lane it waited in.
    pub lane: LaneId,
    /// The chain it is offered to.
    pub chain: String,
    /// The provider the row names: the one to ask first.
    pub provider: ProviderName,
    /// Whether `provider` was kept from before this claim because it deferred the message or may have it.
    pub ask_first: bool,
    /// Whether it is on record that `provider` may have been asked. If not that has to be put there before the first byte.
    pub is_begun: bool,
    /// Whether it was never tried.
    pub untried: bool,
    /// The rounds spent, a takeover included.
    pub rounds: u32,
    /// The recipients still open; `None`: all.
    pub open: Option<Vec<RecipientIndex>>,
    /// Whether a recipient was accepted before.
    pub accepted_before: bool,
    /// When the first attempt of unknown outcome began, if there was one.
    pub unknown_since: Option<OffsetDateTime>,
    /// The provider of its last attempt, a takeover included, if that left the outcome unknown.
    pub unknown_at: Option<ProviderName>,
    /// When it expires.
    pub expire_at: Option<OffsetDateTime>,
    /// When it has waited the allowed time.
    pub give_up_at: OffsetDateTime,
    /// What to do when nobody can know whether it was sent.
    pub unknown_outcome: UnknownOutcome,
    /// How many bytes its content has as it is stored.
    pub size_bytes: u64,
}

impl LaneClaim {
    /// Since when, as Postgres takes it.
    pub(super) fn begins(&self) -> OffsetDateTime {
        self.since.unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}
