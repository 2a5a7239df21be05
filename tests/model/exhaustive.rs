//! Every state of a message's life is gone through, in worlds small enough for that.
//!
//! Owns the worlds. The small ones are seen each time, larger ones as well with `POSTRIDER_MODEL=full` (minutes).

use std::time::Instant;

use postrider::delivery::Class;

use super::{
    explore::explore,
    properties::Life,
    values::{Answer, Broken, Provider, Setup},
};

use Answer::{Told, TookSilently};

/// One recipient, two dispatchers, two providers, and time for two rounds.
const SMALL: Setup = Setup {
    recipients: 1,
    hold: false,
    keyed: &[],
    expire_at: None,
    give_up_at: 3,
    max_rounds: 2,
    senders: 2,
    cancels: true,
    crashes: 0,
    answers: &[Told(Class::Accepted), Told(Class::Unavailable), TookSilently],
    broken: None,
};

/// Two recipients, whose answers differ.
const TWO: Setup = Setup { recipients: 2, give_up_at: 2, cancels: false, ..SMALL };

fn check(name: &str, setup: Setup) {
    let started = Instant::now();
    match explore(&Life { setup }) {
        Ok(extent) => eprintln!("{name}: {extent}, in {:.1?}", started.elapsed()),
        Err(found) => panic!("{name}: {found}"),
    }
}

#[track_caller]
fn find(flaw: &str, setup: Setup) {
    match explore(&Life { setup }) {
        Ok(extent) => panic!("nothing is found in {extent}: {setup:?}"),
        Err(found) => assert_eq!(found.flaw, flaw, "{found}"),
    }
}

#[test]
fn a_message_that_may_be_sent_again_is_never_lost() {
    check("resend", Setup { cancels: false, ..SMALL });
    let comes_to_nothing = &[Told(Class::Unavailable), TookSilently];
    check("resend, called off", Setup { answers: comes_to_nothing, give_up_at: 2, ..SMALL });
    let takes_or_refuses = &[Told(Class::Accepted), Told(Class::RecipientRejected)];
    check("resend, a dispatcher dies", Setup { answers: takes_or_refuses, crashes: 1, give_up_at: 2, ..SMALL });
    let fails = &[Told(Class::Deferred), Told(Class::Throttled), TookSilently];
    check("resend, expires", Setup { answers: fails, expire_at: Some(1), give_up_at: 2, ..SMALL });
}

#[test]
fn a_message_that_must_not_be_sent_twice_is_not() {
    check("hold", Setup { hold: true, crashes: 1, ..SMALL });
    check("hold, a key", Setup { hold: true, keyed: &[Provider::First], ..SMALL });
    check("hold, keys, expires", Setup { hold: true, keyed: &Provider::ALL, expire_at: Some(2), ..SMALL });
}

#[test]
fn each_of_two_recipients_has_its_own_fate() {
    let takes_or_not = &[Told(Class::Accepted), Told(Class::Unavailable)];
    check("two recipients", Setup { answers: takes_or_not, max_rounds: 1, ..TWO });
    check("two recipients, hold, keys", Setup { hold: true, keyed: &Provider::ALL, ..TWO });
}

#[test]
fn in_larger_worlds_it_is_the_same() {
    if std::env::var("POSTRIDER_MODEL").is_ok_and(|what| what == "full") {
        let answers = &[
            Told(Class::Accepted),
            Told(Class::RecipientRejected),
            Told(Class::Unavailable),
            Told(Class::Throttled),
            Told(Class::Deferred),
            Told(Class::OutcomeUnknown),
            TookSilently,
        ];
        let large = Setup { answers, crashes: 1, ..SMALL };
        check("large, resend", large);
        check("resend", SMALL);
        check("large, resend, expires", Setup { expire_at: Some(2), ..large });
        check("large, hold", Setup { hold: true, expire_at: Some(2), ..large });
        check("large, hold, a key", Setup { hold: true, keyed: &[Provider::First], ..large });
        check("large, hold, keys", Setup { hold: true, keyed: &Provider::ALL, ..large });
        check("two recipients", TWO);
        check("large, two recipients", Setup { give_up_at: 2, cancels: true, ..TWO });
        check("large, two recipients, hold", Setup { hold: true, crashes: 1, cancels: true, give_up_at: 3, ..TWO });
    }
}

/// A rule that is broken, a world in which that matters, and what is found there.
#[test]
fn a_broken_rule_is_found() {
    let stale = "a stale holder changed something newer";
    let lost = "an attempt was begun that the history will never hold";
    let twice = "sent twice although the caller asked not to risk it";
    let again = "an acceptance that came late is sent again";
    let small = Setup { cancels: false, give_up_at: 2, ..SMALL };
    let hold = Setup { hold: true, ..small };
    for (broken, world, flaw) in [
        (Broken::SettleWithoutFence, small, stale),
        (Broken::LateFailureCounts, small, stale),
        (Broken::HandOverWithoutFence, small, "somebody without a lease changed the message"),
        (Broken::TakeoverWithoutEvent, Setup { crashes: 1, ..small }, lost),
        (Broken::LateOutcomeForgotten, small, again),
        (Broken::LateAcceptanceIgnored, small, again),
        (Broken::HoldBegunWithoutRecord, hold, twice),
        (Broken::HoldSentAgain, hold, twice),
        (Broken::SettleOpensWhatWasAccepted, TWO, "a claim hands out a recipient that was accepted"),
        (
            Broken::FailureWithoutDueTime,
            Setup { answers: &[Told(Class::Unavailable)], ..small },
            "there is no way to an end",
        ),
        (Broken::UnknownIsForgottenOnExpiry, Setup { expire_at: Some(1), ..small }, "it says not sent, and was"),
        (Broken::FinishedWithoutAWord, small, "the message is lost, or there twice"),
    ] {
        find(flaw, Setup { broken: Some(broken), ..world });
    }
}
