//! The transition function, as tables.

use time::macros::datetime;

use super::*;
use crate::delivery::{Attempt, Health, Outcome, Scope, Skip, Verdict};

const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);
const MINUTE: Duration = Duration::from_secs(60);

fn policy() -> RetryPolicy {
    RetryPolicy { max_rounds: 3, pause: MINUTE, growth: Growth::Linear, ceiling: 60 * MINUTE, jitter: 0.0 }
}

fn standing(recipients: u16) -> Standing {
    Standing {
        rounds: 0,
        open: (0..recipients).map(RecipientIndex).collect(),
        accepted_before: false,
        unknown_since: None,
        unknown_at: None,
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
        skipped: Vec::new(),
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

    // With an unknown outcome in its history nobody may say that it was not sent.
    let since = Standing { unknown_since: Some(NOW - MINUTE), untried: false, ..standing(1) };
    assert_eq!(summary(&after(&since, &nobody)), "FAILED_OUTCOME_UNKNOWN open=1");

    // One that was only not asked in this round may still carry it.
    let mut cut_off = round(&[("a", Class::UnfitHere)]);
    cut_off.skipped.push(skip("b", Some(NOW)));
    assert_eq!(summary(&after(&standing(1), &cut_off)), "REQUIRED_RESEND in=60s open=1 spent=true first=-");
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
fn under_resend_a_provider_that_may_have_it_is_asked_again_once_and_then_after_the_next() {
    let unknown = round(&[("a", Class::OutcomeUnknown)]);
    let asked_again = |by: &str| Standing {
        rounds: 1,
        untried: false,
        unknown_since: Some(NOW - MINUTE),
        unknown_at: Some(ProviderName::new(by)),
        ..standing(1)
    };
    let table = [
        (standing(1), &unknown, "REQUIRED_RESEND in=60s open=1 spent=true first=a"),
        (asked_again("a"), &unknown, "REQUIRED_RESEND in=120s open=1 spent=true first=-"),
        // Of the next one it is the first time.
        (asked_again("b"), &unknown, "REQUIRED_RESEND in=120s open=1 spent=true first=a"),
        (asked_again("a"), &round(&[("a", Class::Deferred)]), "REQUIRED_RESEND in=120s open=1 spent=true first=a"),
        (
            asked_again("a"),
            &round(&[("b", Class::Unavailable), ("a", Class::OutcomeUnknown)]),
            "REQUIRED_RESEND in=120s open=1 spent=true first=-",
        ),
    ];
    for (standing, round, expected) in table {
        assert_eq!(summary(&after(&standing, round)), expected, "{standing:?}");
    }

    // Under hold nobody else may be asked, however often it does not tell.
    let mut keyed = unknown.clone();
    keyed.attempts[0].recognises_key_for = Some(24 * 60 * MINUTE);
    let hold = Standing { unknown_outcome: UnknownOutcome::Hold, ..asked_again("a") };
    assert_eq!(summary(&after(&hold, &keyed)), "REQUIRED_RESEND in=120s open=1 spent=true first=a");
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
