//! A provider that is definitely not to be had: the next one carries the mail at once.

use std::time::Duration;

use postrider::{
    proto::v1::Status,
    sandbox::{http, smtp},
};

use super::{gateway, relay};
use crate::support::{
    app::TestApp,
    caller::{at, email_to, emails, history},
    setup::Setup,
};

#[tokio::test]
async fn what_the_first_provider_definitely_did_not_take_goes_on_in_the_same_round() {
    let (first, second) = (gateway("first").await, relay("second").await);
    let setup = Setup::new().http("first", &first.url()).smtp("second", second.address());
    // Whoever waited for a pause would wait for ever.
    let app = TestApp::start(&setup.set("retry.pause", "1h").set("providers.first.throttle_rest", "10ms")).await;
    let table = [
        (http::Fault::Refuse, "UNAVAILABLE"),
        (http::Fault::Status { code: 503, retry_after: None }, "UNAVAILABLE"),
        (http::Fault::Status { code: 500, retry_after: None }, "UNAVAILABLE"),
        (http::Fault::Status { code: 429, retry_after: None }, "THROTTLED"),
        (http::Fault::Status { code: 413, retry_after: None }, "UNFIT_HERE"),
    ];
    for (nth, (fault, class)) in table.into_iter().enumerate() {
        first.set_fault(fault.clone()).unwrap();
        let id = app.send(email_to(&format!("ada-{nth}@example.net"))).await;
        let status = app.wait_for(&id, Status::SuccessSent).await;
        assert_eq!(history(&status), [format!("1 ATTEMPT first {class}"), "1 ATTEMPT second ACCEPTED".into()]);
        assert_eq!(status.rounds, 1, "{fault}");
    }
    assert_eq!((first.inbox().count(), second.inbox().count()), (0, 5));
    app.finish().await;
}

#[tokio::test]
async fn a_relay_that_puts_everything_off_does_not_hold_the_mail() {
    let (first, second) = (relay("first").await, relay("second").await);
    let setup = Setup::new().smtp("first", first.address()).smtp("second", second.address());
    let app = TestApp::start(&setup.set("retry.pause", "1h")).await;
    for (nth, stage) in [smtp::Stage::Mail, smtp::Stage::Rcpt, smtp::Stage::Dot].into_iter().enumerate() {
        first.set_fault(smtp::Fault::Status { stage, reply: smtp::Reply::new(451, "4.3.0 mail system full") }).unwrap();
        let id = app.send(email_to(&format!("ada-{nth}@example.net"))).await;
        let status = app.wait_for(&id, Status::SuccessSent).await;
        assert_eq!(history(&status), ["1 ATTEMPT first UNAVAILABLE", "1 ATTEMPT second ACCEPTED"], "{stage}");
    }
    assert_eq!((first.inbox().count(), second.inbox().count()), (0, 3));
    app.finish().await;
}

#[tokio::test]
async fn a_provider_that_throttles_is_left_alone_for_as_long_as_it_asked() {
    let (first, second) = (gateway("first").await, relay("second").await);
    let setup = Setup::new().http("first", &first.url()).smtp("second", second.address());
    let app = TestApp::start(&setup).await;
    first.set_fault(http::Fault::Status { code: 429, retry_after: Some(1) }).unwrap();
    let throttled = app.send(email_to("ada@example.net")).await;
    let throttled = app.wait_for(&throttled, Status::SuccessSent).await;
    assert_eq!(history(&throttled), ["1 ATTEMPT first THROTTLED", "1 ATTEMPT second ACCEPTED"]);

    // Well again, and still not asked.
    first.set_fault(http::Fault::None).unwrap();
    let ids = app.send_all(emails("meanwhile", 5)).await;
    for status in app.wait_for_all(&ids, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 ATTEMPT second ACCEPTED"]);
    }
    for nth in 0.. {
        let id = app.send(email_to(&format!("later-{nth}@example.net"))).await;
        let status = app.wait_for(&id, Status::SuccessSent).await;
        if first.inbox().count() > 0 {
            let rested = at(status.events[0].started_at) - at(throttled.events[0].started_at);
            assert!(rested >= Duration::from_secs(1), "asked again after {rested}");
            break;
        }
        assert!(nth < 10_000, "it is never asked again");
    }
    app.finish().await;
}

#[tokio::test]
async fn a_message_that_only_waited_for_a_throttling_provider_has_spent_no_round() {
    let gateway = gateway("gateway").await;
    let app = TestApp::start(&Setup::new().http("gateway", &gateway.url()).set("retry.pause", "1h")).await;
    gateway.set_fault(http::Fault::Throttle).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    let status = app.wait_for(&id, Status::RequiredResend).await;
    assert_eq!((status.rounds, history(&status)), (0, vec!["1 ATTEMPT gateway THROTTLED".into()]));
    let words = "provider gateway is resting after throttling until ";
    assert!(status.waiting_for.starts_with(words), "{}", status.waiting_for);
    gateway.set_fault(http::Fault::None).unwrap();

    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!((status.rounds, history(&status).len()), (1, 2), "asked once more, and no oftener");
    app.finish().await;
}

#[tokio::test]
async fn refused_credentials_are_failed_over_and_found_repaired_without_anybodys_help() {
    let (first, second) = (gateway("first").await, relay("second").await);
    let setup = Setup::new().http("first", &first.url()).smtp("second", second.address());
    let app = TestApp::start(&setup.set("providers.first.account_rest", "300ms")).await;
    first.set_fault(http::Fault::Status { code: 401, retry_after: None }).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT first MISCONFIGURED", "1 ATTEMPT second ACCEPTED"]);
    first.set_fault(http::Fault::None).unwrap();

    for nth in 0.. {
        let id = app.send(email_to(&format!("later-{nth}@example.net"))).await;
        app.wait_for(&id, Status::SuccessSent).await;
        if first.inbox().count() > 0 {
            break;
        }
        assert!(nth < 10_000, "it is never asked again");
    }
    app.finish().await;
}

#[tokio::test]
async fn rejected_recipients_and_messages_never_open_a_circuit() {
    let (first, second) = (relay("first").await, gateway("second").await);
    let setup = Setup::new().smtp("first", first.address()).http("second", &second.url());
    let app = TestApp::start(&setup.set("providers.first.breaker.min_calls", 2)).await;
    first.set_fault("reject:*@bad.example".parse().unwrap()).unwrap();
    let rejected: Vec<_> = (0..10).map(|n| email_to(&format!("nobody-{n}@bad.example"))).collect();
    let ids = app.send_all(rejected).await;
    app.wait_for_all(&ids, Status::FailedNotRetryable).await;
    first.set_fault("status:dot:554 5.6.0 not wanted".parse().unwrap()).unwrap();
    let ids = app.send_all(emails("unwanted", 10)).await;
    app.wait_for_all(&ids, Status::FailedNotRetryable).await;
    first.set_fault(smtp::Fault::None).unwrap();

    let id = app.send(email_to("ada@example.net")).await;
    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT first ACCEPTED"]);
    assert_eq!(second.inbox().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn what_is_taken_for_spam_is_offered_to_one_other_provider_at_most() {
    let (first, second, third) = (relay("first").await, relay("second").await, gateway("third").await);
    let setup = Setup::new().smtp("first", first.address()).smtp("second", second.address());
    let app = TestApp::start(&setup.http("third", &third.url())).await;
    let spam = || "status:dot:550 5.7.1 looks like spam".parse().unwrap();
    first.set_fault(spam()).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT first UNFIT_HERE", "1 ATTEMPT second ACCEPTED"]);

    second.set_fault(spam()).unwrap();
    let id = app.send(email_to("boris@example.net")).await;
    let status = app.wait_for(&id, Status::FailedNotRetryable).await;
    assert_eq!(history(&status), ["1 ATTEMPT first UNFIT_HERE", "1 ATTEMPT second UNFIT_HERE"]);
    assert_eq!(third.inbox().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let (relay, gateway) = (relay("relay").await, gateway("gateway").await);
    for setup in [Setup::new().smtp("provider", relay.address()), Setup::new().http("provider", &gateway.url())] {
        let app = TestApp::start(&setup).await;
        for nth in 0..3 {
            let id = app.send(email_to(&format!("ada-{nth}@example.net"))).await;
            let status = app.wait_for(&id, Status::SuccessSent).await;
            assert_eq!(history(&status), ["1 ATTEMPT provider ACCEPTED"]);
            relay.cut_connections();
            gateway.cut_connections();
        }
        app.finish().await;
    }
    assert_eq!((relay.inbox().count(), gateway.inbox().count()), (3, 3));
}
