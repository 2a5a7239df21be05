//! The transition function: what happens to a message after a round.

use std::time::Duration;

use time::OffsetDateTime;

use super::{Attempt, Class, ProviderName, Round, Status};
use crate::{
    config,
    message::{RecipientIndex, UnknownOutcome},
};

/// How often and how long a message is tried.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How many rounds may be spent.
    pub max_rounds: u32,
    /// The pause after the first round.
    pub pause: Duration,
    /// How the pause grows with the rounds.
    pub growth: Growth,
    /// The longest pause.
    pub ceiling: Duration,
    /// How far a pause is moved at random, as a part of it: 0.1 makes 10 minutes anything from 9 to 11.
    pub jitter: f64,
}

/// How the pause grows with the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Rounds × pause.
    Linear,
    /// Pause × 2^(rounds − 1).
    Exponential,
}

/// Where a message stood when the round began.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The rounds spent before this one, since an operator last asked for a retry.
    pub rounds: u32,
    /// The recipients that were open.
    pub open: Vec<RecipientIndex>,
    /// Whether a recipient was accepted before.
    pub accepted_before: bool,
    /// When the first attempt of unknown outcome began, if one stands in its history.
    pub unknown_since: Option<OffsetDateTime>,
    /// The provider of the last attempt before this round, if that left the outcome unknown.
    pub unknown_at: Option<ProviderName>,
    /// Whether it was never tried (NOT_YET_SENT before the claim).
    pub untried: bool,
    /// Whether somebody asked to call it off.
    pub cancel_requested: bool,
    /// When it expires.
    pub expire_at: Option<OffsetDateTime>,
    /// When it has waited the allowed time.
    pub give_up_at: OffsetDateTime,
    /// What to do when nobody can know whether it was sent.
    pub unknown_outcome: UnknownOutcome,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// It is finished: SUCCESS_SENT, EXPIRED or CANCELED.
    Finished(Status),
    /// A person has to look: one of the FAILED statuses. Recipients in `open` were not finished.
    Person {
        /// Which.
        status: Status,
        /// The recipients left open.
        open: Vec<RecipientIndex>,
    },
    /// It is tried again.
    Again {
        /// NOT_YET_SENT if it was never tried, else REQUIRED_RESEND.
        status: Status,
        /// When: the next try or `expire_at`, whichever comes first.
        due_at: OffsetDateTime,
        /// The recipients to offer.
        open: Vec<RecipientIndex>,
        /// Whether this round counts.
        round_spent: bool,
        /// The provider to ask first: the one that deferred it, or that may have it and was not asked about it again yet.
        ask_first: Option<ProviderName>,
    },
}

/// Decides what happens to a message after a round.
///
/// `dice` is a number from 0 to 1 that decides the jitter; everything else follows from the other arguments alone.
pub fn next(standing: &Standing, round: &Round, policy: &RetryPolicy, now: OffsetDateTime, dice: f64) -> Next {
    let open: Vec<RecipientIndex> = standing.open.iter().copied().filter(|&r| !is_finished(round, r)).collect();
    let accepted = standing.accepted_before || classes(round).any(|class| class == Class::Accepted);
    if open.is_empty() {
        return match accepted {
            true => Next::Finished(Status::SuccessSent),
            false => Next::Person { status: Status::FailedNotRetryable, open },
        };
    }

    let unknown = standing.unknown_since.is_some() || classes(round).any(|class| class == Class::OutcomeUnknown);
    let hold = unknown && standing.unknown_outcome == UnknownOutcome::Hold;
    if standing.cancel_requested {
        return call_off(Status::Canceled, Status::SuccessSent, unknown, accepted, open);
    }
    if standing.expire_at.is_some_and(|at| at <= now) {
        return call_off(Status::Expired, Status::FailedRetriesExhausted, unknown, accepted, open);
    }
    if no_provider_is_left(round, &open) {
        let status = if unknown { Status::FailedOutcomeUnknown } else { Status::FailedNotRetryable };
        return Next::Person { status, open };
    }

    let round_spent = round.spends();
    let rounds = standing.rounds + u32::from(round_spent);
    let due_at = if round_spent {
        now + policy.pause_after(rounds, dice)
    } else {
        round.ready_at.unwrap_or_else(|| now + policy.pause_after(1, dice)).max(now)
    };
    if hold && !key_holds(standing, round, due_at) {
        return Next::Person { status: Status::FailedOutcomeUnknown, open };
    }
    if (round_spent && rounds >= policy.max_rounds) || standing.give_up_at <= now {
        let status = if hold { Status::FailedOutcomeUnknown } else { Status::FailedRetriesExhausted };
        return Next::Person { status, open };
    }

    Next::Again {
        status: if standing.untried && round.attempts.is_empty() { Status::NotYetSent } else { Status::RequiredResend },
        due_at: due_at.min(standing.give_up_at).min(standing.expire_at.unwrap_or(due_at)),
        ask_first: provider_to_ask_first(standing, round, &open, hold),
        open,
        round_spent,
    }
}

impl From<&config::Retry> for RetryPolicy {
    fn from(retry: &config::Retry) -> Self {
        Self {
            max_rounds: retry.max_rounds,
            pause: retry.pause,
            growth: match retry.growth {
                config::Growth::Linear => Growth::Linear,
                config::Growth::Exponential => Growth::Exponential,
            },
            ceiling: retry.ceiling,
            jitter: retry.jitter,
        }
    }
}

impl RetryPolicy {
    /// The pause after that many rounds.
    fn pause_after(&self, rounds: u32, dice: f64) -> Duration {
        let rounds = rounds.max(1);
        let factor = match self.growth {
            Growth::Linear => f64::from(rounds),
            Growth::Exponential => 2_f64.powi(i32::try_from(rounds - 1).unwrap_or(i32::MAX)),
        };
        let jitter = 1.0 + self.jitter * (2.0 * dice - 1.0);
        let seconds = (self.pause.as_secs_f64() * factor).min(self.ceiling.as_secs_f64()) * jitter;
        Duration::try_from_secs_f64(seconds).unwrap_or(self.ceiling)
    }
}

fn classes(round: &Round) -> impl Iterator<Item = Class> {
    round.attempts.iter().flat_map(|attempt| &attempt.outcome.verdicts).map(|(_, verdict)| verdict.class)
}

fn is_finished(round: &Round, recipient: RecipientIndex) -> bool {
    round.last_class(recipient).is_some_and(Class::is_final)
}

/// A message that is called off by its caller or by time. With an unknown attempt in its history nobody may say that it
/// was not sent; with a recipient accepted it was.
fn call_off(unsent: Status, partly_sent: Status, unknown: bool, accepted: bool, open: Vec<RecipientIndex>) -> Next {
    let status = match (unknown, accepted) {
        (true, _) => Status::FailedOutcomeUnknown,
        (false, true) => partly_sent,
        (false, false) => unsent,
    };
    if status.is_finished() { Next::Finished(status) } else { Next::Person { status, open } }
}

/// Whether no provider of the chain can ever carry what is left: each was skipped for good or said so.
fn no_provider_is_left(round: &Round, open: &[RecipientIndex]) -> bool {
    let all_skipped_for_good = round.skipped.iter().all(|skip| skip.until.is_none());
    let all_unfit = round
        .attempts
        .iter()
        .flat_map(|attempt| &attempt.outcome.verdicts)
        .filter(|(recipient, _)| open.contains(recipient))
        .all(|(_, verdict)| verdict.class == Class::UnfitHere);
    let considered_any = !round.skipped.is_empty() || !round.attempts.is_empty();
    considered_any && all_skipped_for_good && all_unfit
}

/// Whether the provider that may have the message would still recognise it by its key at the next try.
fn key_holds(standing: &Standing, round: &Round, due_at: OffsetDateTime) -> bool {
    let unknown = round.attempts.iter().rev().find(|attempt| attempt.left_any(Class::OutcomeUnknown));
    // Where the outcome became unknown in an earlier round, nobody but that provider was asked in this one.
    let Some(attempt) = unknown.or(round.attempts.last()) else {
        // Not asked in this round: the provider that may have it was not ready, and the key is judged when it is.
        return true;
    };
    let since = standing.unknown_since.unwrap_or(attempt.started_at);
    attempt.recognises_key_for.is_some_and(|window| due_at < since + window)
}

/// The provider that deferred it, or that may have it: under hold the one that was asked, since nobody else may be.
///
/// Under resend a provider that may have it is asked again once. If it does not tell then either, it is not ready for
/// this message, whatever it does for others: at a quiet time its circuit may stay closed for ever, and the message would
/// stay with it until the rounds are used up. Then the next provider is asked, after the pause, and this one after it.
fn provider_to_ask_first(
    standing: &Standing,
    round: &Round,
    open: &[RecipientIndex],
    hold: bool,
) -> Option<ProviderName> {
    let keeps = |attempt: &&Attempt| {
        let was_asked_again = standing.unknown_at.as_ref() == Some(&attempt.provider);
        attempt.outcome.verdicts.iter().filter(|(recipient, _)| open.contains(recipient)).any(|(_, verdict)| {
            match verdict.class {
                Class::Deferred => true,
                Class::OutcomeUnknown => hold || !was_asked_again,
                _ => false,
            }
        })
    };
    let mut latest_first = round.attempts.iter().rev();
    let keeps_it = latest_first.clone().find(keeps);
    keeps_it.or(latest_first.next().filter(|_| hold)).map(|attempt| attempt.provider.clone())
}

#[cfg(test)]
mod tests;
