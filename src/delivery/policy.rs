//! The transition function: what happens to a message after a round.

use std::time::Duration;

use time::OffsetDateTime;

use super::{Class, ProviderName, Round, Status};
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
    /// How long a message may wait in all, from when it was first due.
    pub longest_wait: Duration,
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
        /// The provider to ask first: the one that deferred it, or that may have it.
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
    if no_provider_is_left(round, &open) && !unknown {
        return Next::Person { status: Status::FailedNotRetryable, open };
    }

    let round_spent = classes(round).any(Class::spends_round);
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
        ask_first: provider_to_ask_first(round, &open, hold),
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
            longest_wait: retry.longest_wait,
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
fn provider_to_ask_first(round: &Round, open: &[RecipientIndex], hold: bool) -> Option<ProviderName> {
    let keeps = |class| matches!(class, Class::Deferred | Class::OutcomeUnknown);
    let mut latest_first = round.attempts.iter().rev();
    let keeps_it = latest_first
        .clone()
        .find(|a| a.outcome.verdicts.iter().any(|(recipient, v)| open.contains(recipient) && keeps(v.class)));
    keeps_it.or(latest_first.next().filter(|_| hold)).map(|attempt| attempt.provider.clone())
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::delivery::{Attempt, Health, Outcome, Scope, Skip, Verdict};

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
    const MINUTE: Duration = Duration::from_secs(60);

    fn policy() -> RetryPolicy {
        RetryPolicy {
            max_rounds: 3,
            pause: MINUTE,
            growth: Growth::Linear,
            ceiling: 60 * MINUTE,
            jitter: 0.0,
            longest_wait: 72 * 60 * MINUTE,
        }
    }

    fn standing(recipients: u16) -> Standing {
        Standing {
            rounds: 0,
            open: (0..recipients).map(RecipientIndex).collect(),
            accepted_before: false,
            unknown_since: None,
            untried: true,
            cancel_requested: false,
            expire_at: None,
            give_up_at: NOW + 72 * 60 * MINUTE,
            unknown_outcome: UnknownOutcome::Resend,
        }
    }

    fn attempt(provider: &str, classes: &[Class]) -> Attempt {
        let verdicts = (0u16..)
            .zip(classes)
            .map(|(index, &class)| (RecipientIndex(index), Verdict::new(class, Scope::Provider, "", "")))
            .collect();
        Attempt {
            provider: ProviderName::new(provider),
            started_at: NOW - MINUTE,
            duration: Duration::from_secs(1),
            recognises_key_for: None,
            outcome: Outcome { verdicts, provider_message_id: None, health: Health::Neutral },
        }
    }

    fn round(attempts: &[(&str, Class)]) -> Round {
        Round { attempts: attempts.iter().map(|(p, class)| attempt(p, &[*class])).collect(), ..Round::default() }
    }

    fn skip(provider: &str, until: Option<OffsetDateTime>) -> Skip {
        Skip { provider: ProviderName::new(provider), reason: "circuit is open".into(), until }
    }

    fn after(standing: &Standing, round: &Round) -> Next {
        next(standing, round, &policy(), NOW, 0.5)
    }

    /// What one line of the tables below expects.
    fn summary(next: &Next) -> String {
        match next {
            Next::Finished(status) => format!("{status}"),
            Next::Person { status, open } => format!("{status} open={}", open.len()),
            Next::Again { status, due_at, open, round_spent, ask_first } => format!(
                "{status} in={}s open={} spent={round_spent} first={}",
                (*due_at - NOW).whole_seconds(),
                open.len(),
                ask_first.as_ref().map_or("-", ProviderName::as_str)
            ),
        }
    }

    #[test]
    fn each_class_alone_leads_where_it_should() {
        let table = [
            (Class::Accepted, "SUCCESS_SENT"),
            (Class::RecipientRejected, "FAILED_NOT_RETRYABLE open=0"),
            (Class::MessageRejected, "FAILED_NOT_RETRYABLE open=0"),
            (Class::UnfitHere, "FAILED_NOT_RETRYABLE open=1"),
            (Class::Deferred, "REQUIRED_RESEND in=60s open=1 spent=true first=a"),
            (Class::Unavailable, "REQUIRED_RESEND in=60s open=1 spent=true first=-"),
            (Class::Throttled, "REQUIRED_RESEND in=60s open=1 spent=false first=-"),
            (Class::QuotaUsedUp, "REQUIRED_RESEND in=60s open=1 spent=false first=-"),
            (Class::Misconfigured, "REQUIRED_RESEND in=60s open=1 spent=false first=-"),
            (Class::OutcomeUnknown, "REQUIRED_RESEND in=60s open=1 spent=true first=a"),
        ];
        for (class, expected) in table {
            assert_eq!(summary(&after(&standing(1), &round(&[("a", class)]))), expected, "{class:?}");
        }
    }

    #[test]
    fn failover_within_a_round_is_judged_by_its_last_word() {
        let table = [
            (Class::Unavailable, Class::Accepted, "SUCCESS_SENT"),
            (Class::Unavailable, Class::RecipientRejected, "FAILED_NOT_RETRYABLE open=0"),
            (Class::Unavailable, Class::Unavailable, "REQUIRED_RESEND in=60s open=1 spent=true first=-"),
            (Class::Misconfigured, Class::Unavailable, "REQUIRED_RESEND in=60s open=1 spent=true first=-"),
            (Class::Misconfigured, Class::Throttled, "REQUIRED_RESEND in=60s open=1 spent=false first=-"),
            (Class::UnfitHere, Class::UnfitHere, "FAILED_NOT_RETRYABLE open=1"),
            (Class::UnfitHere, Class::Unavailable, "REQUIRED_RESEND in=60s open=1 spent=true first=-"),
            (Class::Unavailable, Class::Deferred, "REQUIRED_RESEND in=60s open=1 spent=true first=b"),
        ];
        for (first, second, expected) in table {
            let round = round(&[("a", first), ("b", second)]);
            assert_eq!(summary(&after(&standing(1), &round)), expected, "{first:?} then {second:?}");
        }
    }

    #[test]
    fn each_recipient_has_its_own_fate() {
        let three = Round {
            attempts: vec![attempt("b", &[Class::Accepted, Class::RecipientRejected, Class::Deferred])],
            ..Round::default()
        };
        let Next::Again { open, ask_first, .. } = after(&standing(3), &three) else { panic!("not tried again") };
        assert_eq!(open, [RecipientIndex(2)]);
        assert_eq!(ask_first, Some(ProviderName::new("b")));

        let rest = Standing { open: vec![RecipientIndex(0)], accepted_before: true, rounds: 1, ..standing(0) };
        let rejected = round(&[("b", Class::RecipientRejected)]);
        assert_eq!(after(&rest, &rejected), Next::Finished(Status::SuccessSent));
    }

    #[test]
    fn the_pause_is_rounds_times_n_and_the_rounds_are_limited() {
        let failed = round(&[("a", Class::Unavailable)]);
        let table = [
            (0, "REQUIRED_RESEND in=60s open=1 spent=true first=-"),
            (1, "REQUIRED_RESEND in=120s open=1 spent=true first=-"),
            (2, "FAILED_RETRIES_EXHAUSTED open=1"),
        ];
        for (rounds, expected) in table {
            let standing = Standing { rounds, untried: false, ..standing(1) };
            assert_eq!(summary(&after(&standing, &failed)), expected, "{rounds} rounds before");
        }
    }

    #[test]
    fn the_pause_grows_as_set_up_to_the_ceiling_with_jitter_on_both_sides() {
        let linear = policy();
        let exponential = RetryPolicy { growth: Growth::Exponential, ..policy() };
        let jittery = RetryPolicy { jitter: 0.1, ..policy() };
        let table = [
            (&linear, 1, 0.5, 60),
            (&linear, 4, 0.5, 240),
            (&linear, 1000, 0.5, 3600),
            (&exponential, 1, 0.5, 60),
            (&exponential, 4, 0.5, 480),
            (&exponential, 4000, 0.5, 3600),
            (&jittery, 1, 0.0, 54),
            (&jittery, 1, 1.0, 66),
        ];
        for (policy, rounds, dice, seconds) in table {
            let pause = policy.pause_after(rounds, dice);
            assert_eq!(pause.as_secs_f64().round() as u64, seconds, "{policy:?} after {rounds} rounds, dice {dice}");
        }
    }

    #[test]
    fn waiting_spends_no_round_and_ends_when_a_provider_is_ready() {
        let waiting = Round {
            skipped: vec![skip("a", Some(NOW + 5 * MINUTE)), skip("b", None)],
            ready_at: Some(NOW + 5 * MINUTE),
            ..Round::default()
        };
        assert_eq!(summary(&after(&standing(1), &waiting)), "NOT_YET_SENT in=300s open=1 spent=false first=-");

        let tried = Standing { rounds: 2, untried: false, ..standing(1) };
        assert_eq!(summary(&after(&tried, &waiting)), "REQUIRED_RESEND in=300s open=1 spent=false first=-");

        let too_long = Standing { give_up_at: NOW, ..standing(1) };
        assert_eq!(summary(&after(&too_long, &waiting)), "FAILED_RETRIES_EXHAUSTED open=1");
    }

    #[test]
    fn what_no_provider_can_carry_goes_to_a_person() {
        let nobody = Round { skipped: vec![skip("a", None), skip("b", None)], ..Round::default() };
        assert_eq!(summary(&after(&standing(1), &nobody)), "FAILED_NOT_RETRYABLE open=1");
    }

    #[test]
    fn under_hold_an_unknown_outcome_goes_to_a_person_unless_the_provider_can_tell_by_its_key() {
        let hold = Standing { unknown_outcome: UnknownOutcome::Hold, ..standing(1) };
        let mut unknown = round(&[("a", Class::OutcomeUnknown)]);
        assert_eq!(summary(&after(&hold, &unknown)), "FAILED_OUTCOME_UNKNOWN open=1");

        unknown.attempts[0].recognises_key_for = Some(24 * 60 * MINUTE);
        assert_eq!(summary(&after(&hold, &unknown)), "REQUIRED_RESEND in=60s open=1 spent=true first=a");

        let long_ago = Standing { unknown_since: Some(NOW - 25 * 60 * MINUTE), ..hold.clone() };
        assert_eq!(summary(&after(&long_ago, &unknown)), "FAILED_OUTCOME_UNKNOWN open=1");

        // Asked again, it did not take it this time: it still knows whether it had.
        let before = Standing { unknown_since: Some(NOW - MINUTE), untried: false, rounds: 1, ..hold.clone() };
        let mut down = round(&[("a", Class::Unavailable)]);
        assert_eq!(summary(&after(&before, &down)), "FAILED_OUTCOME_UNKNOWN open=1", "it knows no keys");
        down.attempts[0].recognises_key_for = Some(24 * 60 * MINUTE);
        assert_eq!(summary(&after(&before, &down)), "REQUIRED_RESEND in=120s open=1 spent=true first=a");

        let last_round = Standing { rounds: 2, ..hold };
        assert_eq!(summary(&after(&last_round, &unknown)), "FAILED_OUTCOME_UNKNOWN open=1");
    }

    #[test]
    fn expiry_and_cancellation_stop_the_next_try_and_never_deny_what_may_have_been_sent() {
        let failed = round(&[("a", Class::Unavailable)]);
        let unknown = round(&[("a", Class::OutcomeUnknown)]);
        let accepted = round(&[("a", Class::Accepted)]);
        let expired = Standing { expire_at: Some(NOW), ..standing(1) };
        let canceled = Standing { cancel_requested: true, ..standing(1) };
        let table = [
            (&expired, &failed, "EXPIRED"),
            (&expired, &unknown, "FAILED_OUTCOME_UNKNOWN open=1"),
            (&expired, &accepted, "SUCCESS_SENT"),
            (&canceled, &failed, "CANCELED"),
            (&canceled, &unknown, "FAILED_OUTCOME_UNKNOWN open=1"),
            (&canceled, &accepted, "SUCCESS_SENT"),
        ];
        for (standing, round, expected) in table {
            assert_eq!(summary(&after(standing, round)), expected);
        }

        let partly = Round { attempts: vec![attempt("a", &[Class::Accepted, Class::Deferred])], ..Round::default() };
        let expired = Standing { expire_at: Some(NOW), ..standing(2) };
        assert_eq!(summary(&after(&expired, &partly)), "FAILED_RETRIES_EXHAUSTED open=1");
        let canceled = Standing { cancel_requested: true, ..standing(2) };
        assert_eq!(summary(&after(&canceled, &partly)), "SUCCESS_SENT");
    }

    #[test]
    fn the_next_try_is_never_later_than_the_expiry_or_the_longest_wait() {
        let failed = round(&[("a", Class::Unavailable)]);
        let expiring = Standing { expire_at: Some(NOW + Duration::from_secs(20)), ..standing(1) };
        assert_eq!(summary(&after(&expiring, &failed)), "REQUIRED_RESEND in=20s open=1 spent=true first=-");
        let ending = Standing { give_up_at: NOW + Duration::from_secs(30), ..standing(1) };
        assert_eq!(summary(&after(&ending, &failed)), "REQUIRED_RESEND in=30s open=1 spent=true first=-");
    }
}
