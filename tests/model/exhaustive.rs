//! Every state of a message's life is gone through, in worlds small enough for that.
//!
//! Owns the worlds. Those that `make test` has time for are seen each time, larger ones with `POSTRIDER_MODEL=full`.

use std::time::Instant;

use postrider::delivery::Class;

use super::{
    explore::{Counterexample, explore},
    properties::Life,
    values::{Answer, Broken, Provider, Setup},
};

use Answer::{Told, TookSilently};

/// One recipient, two dispatchers of which one may die, two providers.
const SMALL: Setup = Setup {
    recipients: 1,
    hold: false,
    keyed: &[],
    expire_at: None,
    give_up_at: 3,
    max_rounds: 2,
    senders: 2,
    crashes: 1,
    answers: &[Told(Class::Accepted), Told(Class::Unavailable), TookSilently],
    corrected: false,
    broken: None,
};

fn check(name: &str, setup: Setup) {
    let started = Instant::now();
    match explore(&Life { setup }) {
        Ok(extent) => eprintln!("{name}: {extent} in {:.1?}", started.elapsed()),
        Err(found) => panic!("{name}: {found}"),
    }
}

fn is_full() -> bool {
    std::env::var("POSTRIDER_MODEL").is_ok_and(|what| what == "full")
}

#[test]
fn a_message_that_may_be_sent_again_is_never_lost() {
    check("resend", SMALL);
    check("resend, expires", Setup { expire_at: Some(2), crashes: 0, ..SMALL });
    let answers = &[Told(Class::RecipientRejected), Told(Class::Throttled), Told(Class::Deferred), TookSilently];
    check("resend, other answers", Setup { answers, crashes: 0, ..SMALL });
}

#[test]
fn a_message_that_must_not_be_sent_twice_is_not() {
    check("hold", Setup { hold: true, ..SMALL });
    check("hold, a key", Setup { hold: true, keyed: &[Provider::First], ..SMALL });
    check("hold, keys", Setup { hold: true, keyed: &Provider::ALL, expire_at: Some(2), ..SMALL });
}

#[test]
fn each_of_two_recipients_has_its_own_fate() {
    let two = Setup { recipients: 2, crashes: 0, max_rounds: 2, give_up_at: 2, ..SMALL };
    check("two recipients", two);
    check("two recipients, hold", Setup { hold: true, crashes: 1, ..two });
    check("two recipients, hold, keys", Setup { hold: true, keyed: &Provider::ALL, crashes: 1, ..two });
}
