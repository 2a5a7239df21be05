//! Unknown outcomes across rounds, restarts and changes of the settings: the one that may have it first, and again once.

use std::{sync::Arc, time::Duration};

use postrider::{
    proto::v1::Status,
    sandbox::{
        http::Fault,
        smtp::{self, Stage},
    },
};

use super::{gateway, passed_over, relay, status};
use crate::support::{
    app::TestApp,
    caller::{PATIENCE, email_to, held, history},
    postgres::Database,
    process::Process,
    setup::Setup,
};

#[tokio::test]
async fn at_a_quiet_time_a_provider_that_never_tells_gives_the_message_up_to_the_next() {
    let (first, second) = (gateway("first").await, relay("second").await);
    // As it comes by default, but for the pause: one message alone opens no circuit.
    let setup = Setup::new().http("first", &first.url()).smtp("second", second.address());
    let app = TestApp::start(&setup.set("providers.first.breaker.min_calls", 5)).await;
    first.set_fault(status(502)).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    let expected = ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first OUTCOME_UNKNOWN", "3 ATTEMPT second ACCEPTED"];
    assert_eq!(history(&sent), expected);
    assert_eq!((first.inbox().count(), second.inbox().count()), (0, 1));
    app.finish().await;
}

#[tokio::test]
async fn who_did_not_tell_is_asked_again_after_the_others() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    let app = TestApp::start(&setup).await;
    first.set_fault(status(502)).unwrap();
    second.set_fault(status(503)).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    app.wait(&id, |status| status.events.len() >= 4).await;
    first.set_fault(Fault::None).unwrap();
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    let told = history(&sent);
    let begins = [
        "1 ATTEMPT first OUTCOME_UNKNOWN",
        "2 ATTEMPT first OUTCOME_UNKNOWN",
        "3 ATTEMPT second UNAVAILABLE",
        "3 ATTEMPT first OUTCOME_UNKNOWN",
    ];
    assert_eq!(told[..4], begins);
    assert!(told.last().unwrap().ends_with("first ACCEPTED"), "{told:?}");
    assert_eq!((first.inbox().count(), second.inbox().count()), (1, 0));
    app.finish().await;
}

#[tokio::test]
async fn a_restart_forgets_neither_who_may_have_it_nor_that_it_was_asked_again() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).set("retry.pause", "300ms");
    first.set_fault(status(502)).unwrap();
    let app = TestApp::start_on(database.clone(), &setup).await;
    let id = app.send(email_to("ada@example.net")).await;
    app.wait_for(&id, Status::RequiredResend).await;
    app.finish().await;

    let app = TestApp::start_on(database.clone(), &setup).await;
    app.wait(&id, |status| status.events.len() == 2 && status.status() == Status::RequiredResend).await;
    app.finish().await;

    let app = TestApp::start_on(database, &setup).await;
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    let expected = ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first OUTCOME_UNKNOWN", "3 ATTEMPT second ACCEPTED"];
    assert_eq!(history(&sent), expected);
    app.finish().await;
}

#[tokio::test]
async fn after_a_kill_the_one_that_may_have_it_is_asked_again_under_its_key_and_nobody_else() {
    let (database, first, second) = (Database::new().await, gateway("first").await, gateway("second").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).set("dispatch.lease", "2s");
    for (address, request) in [
        ("resend@example.net", email_to("resend@example.net")),
        // The gateway knows its keys, so that even this one is asked again.
        ("hold@example.net", held(email_to("hold@example.net"))),
    ] {
        let killed = Process::start(&database, &setup).await;
        first.set_fault(Fault::Delay(Duration::from_secs(60))).unwrap();
        let id = killed.send(request).await;
        let arrived = |inbox: &postrider::sandbox::Inbox| inbox.by_recipient(address).len() == 1;
        first.inbox().wait_until(arrived, PATIENCE).await.expect("it is taken");
        killed.kill().await;
        first.set_fault(Fault::None).unwrap();

        let other = Process::start(&database, &setup).await;
        let sent = other.wait_for(&id, Status::SuccessSent).await;
        assert_eq!(history(&sent), ["1 TAKEOVER first OUTCOME_UNKNOWN", "2 ATTEMPT first ACCEPTED"], "{address}");
        let mails = first.inbox().by_recipient(address);
        assert_eq!((mails.len(), mails[0].repeats), (1, 1), "recognised by its key");
        other.finish().await;
    }
    assert_eq!(second.inbox().count(), 0);
}

#[tokio::test]
async fn where_the_one_that_may_have_it_has_left_the_chain_the_next_gets_it_or_a_person() {
    let (first, second) = (relay("first").await, gateway("second").await);
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().smtp("first", first.address()).http("second", &second.url()).set("retry.pause", "1s");
    first.set_fault(smtp::Fault::DropAfterDot { stored: true }).unwrap();
    let before = TestApp::start_on(database.clone(), &setup).await;
    let resend = before.send(email_to("resend@example.net")).await;
    before.wait_for(&resend, Status::RequiredResend).await;
    before.finish().await;

    let after = TestApp::start_on(database, &setup.default_chain("[\"second\"]")).await;
    let sent = after.wait_for(&resend, Status::SuccessSent).await;
    assert_eq!(history(&sent), ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT second ACCEPTED"]);
    assert_eq!(passed_over(&sent.events[1].skipped), ["first: not in this chain"]);
    after.finish().await;
}

#[tokio::test]
async fn under_hold_nobody_else_is_asked_though_the_one_that_may_have_it_has_left_the_chain() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).set("retry.pause", "1s");
    first.set_fault(Fault::DropAfterAccept).unwrap();
    let before = TestApp::start_on(database.clone(), &setup).await;
    let id = before.send(held(email_to("hold@example.net"))).await;
    // It knows its keys, so it would be asked again.
    before.wait_for(&id, Status::RequiredResend).await;
    before.finish().await;

    let after = TestApp::start_on(database.clone(), &setup.default_chain("[\"second\"]")).await;
    let failed = after.wait_for(&id, Status::FailedOutcomeUnknown).await;
    assert_eq!(history(&failed), ["1 ATTEMPT first OUTCOME_UNKNOWN"]);
    let provider: String = database.scalar(&format!("select provider from pending where id = '{id}'")).await;
    assert_eq!((provider.as_str(), second.inbox().count()), ("first", 0), "the row says who may have it");
    after.finish().await;
}

#[tokio::test]
async fn what_was_being_sent_when_the_process_had_to_stop_is_asked_of_the_same_provider_again() {
    let (first, second) = (relay("first").await, gateway("second").await);
    let database = Arc::new(Database::new().await);
    let setup = Setup::new().smtp("first", first.address()).http("second", &second.url());
    first.set_fault(smtp::Fault::Delay { stage: Stage::Dot, by: Duration::from_secs(60) }).unwrap();
    let stopped = TestApp::start_on(database.clone(), &setup.clone().set("dispatch.drain_limit", "100ms")).await;
    let id = stopped.send(email_to("ada@example.net")).await;
    first.inbox().wait_until(|inbox| inbox.count() == 1, PATIENCE).await.expect("it is taken");
    stopped.finish().await;

    first.set_fault(smtp::Fault::None).unwrap();
    let app = TestApp::start_on(database, &setup).await;
    let sent = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&sent), ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first ACCEPTED"]);
    assert_eq!(second.inbox().count(), 0);
    app.finish().await;
}
