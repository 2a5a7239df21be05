//! Against smtp-sink with its faults switched on: the same ends as by script, from a server that nobody here wrote.

use postrider::{
    config::SmtpProvider as Settings,
    delivery::{
        Class::{self, *},
        Health,
    },
};

use super::{impatient, message, message_to, send, settings, verdict};
use crate::support::smtp_sink::SmtpSink;

const FAILING: Health = Health::Failing { retry_after: None };
const RESTING: Health = Health::Resting { retry_after: None };

#[tokio::test]
async fn its_faults_are_judged_for_what_they_are() {
    let table: [(&[&str], Class, &str, Health); 15] = [
        (&[], Accepted, "250 2.0.0", Health::Healthy),
        (&["-p"], Accepted, "250 2.0.0", Health::Healthy),
        (&["-q", "CONNECT"], Unavailable, "eof", FAILING),
        (&["-f", "CONNECT", "-B", "554 5.7.1 blocked"], Misconfigured, "554 5.7.1", Health::Misconfigured),
        (&["-q", "EHLO"], Unavailable, "eof", FAILING),
        (&["-q", "MAIL"], Unavailable, "eof", FAILING),
        (&["-f", "MAIL", "-B", "550 5.1.8 no"], Misconfigured, "550 5.1.8", Health::MisconfiguredForSenderDomain),
        (&["-q", "RCPT"], Unavailable, "eof", FAILING),
        (&["-f", "RCPT", "-B", "550 5.1.1 no"], RecipientRejected, "550 5.1.1", Health::Healthy),
        (&["-r", "RCPT", "-b", "450 4.2.0 later"], Deferred, "450 4.2.0", Health::Healthy),
        (&["-q", "DATA"], Unavailable, "eof", FAILING),
        (&["-r", "."], Unavailable, "450 4.3.0", FAILING),
        (&["-r", ".", "-b", "450 4.7.1 later"], Deferred, "450 4.7.1", Health::Healthy),
        (&["-f", ".", "-B", "554 5.6.0 no"], MessageRejected, "554 5.6.0", Health::Healthy),
        (&["-q", "."], OutcomeUnknown, "eof", FAILING),
    ];
    for (options, class, code, health) in table {
        let Some(sink) = SmtpSink::start(options).await else { return };
        let outcome = send(&settings(sink.address), message()).await;
        assert_eq!((verdict(&outcome), outcome.health), ((class, code.to_owned()), health), "{options:?}");
    }
}

#[tokio::test]
async fn its_421_is_a_rest_before_the_content_and_definite_after_it() {
    for (stage, class, health) in [
        ("CONNECT", Unavailable, FAILING),
        ("MAIL", Throttled, RESTING),
        ("RCPT", Throttled, RESTING),
        ("DATA", Throttled, RESTING),
        (".", Deferred, Health::Healthy),
    ] {
        let Some(sink) = SmtpSink::start(&["-Q", stage]).await else { return };
        let outcome = send(&settings(sink.address), message()).await;
        let (found, code) = verdict(&outcome);
        assert!(code.starts_with("421"), "{stage}: {code}");
        assert_eq!((found, outcome.health), (class, health), "{stage}: {code}");
    }
}

#[tokio::test]
async fn its_silence_is_definite_before_the_final_dot_and_unknown_after_it() {
    for (delay, class) in [("MAIL:30", Unavailable), ("DATA:30", Unavailable), (".:30", OutcomeUnknown)] {
        // In groups it would answer the other commands meanwhile, out of order.
        let Some(sink) = SmtpSink::start(&["-p", "-W", delay]).await else { return };
        let outcome = send(&impatient(sink.address), message()).await;
        assert_eq!((verdict(&outcome), outcome.health), ((class, "timeout".to_owned()), FAILING), "{delay}");
    }
}

#[tokio::test]
async fn a_server_that_breaks_off_in_the_middle_of_the_content_has_not_taken_it() {
    let large = "x".repeat(78) + "\r\n";
    let large = large.repeat(200_000);
    let Some(sink) = SmtpSink::start(&["-A", "0"]).await else { return };
    let settings = Settings { data_timeout: impatient(sink.address).data_timeout, ..settings(sink.address) };
    let outcome = send(&settings, message_to(&["one"], &large)).await;
    let (class, code) = verdict(&outcome);
    assert!(matches!(class, MessageRejected | Unavailable), "{class:?} {code}");
}
