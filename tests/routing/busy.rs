//! A provider at a limit of ours: waited for, or left to the next.

use std::time::Duration;

use postrider::{
    proto::v1::Status,
    sandbox::{Inbox, http::Fault},
};

use super::{gateway, passed_over, taken_by};
use crate::support::{
    app::TestApp,
    caller::{PATIENCE, email_to, emails, history},
    setup::Setup,
};

#[tokio::test]
async fn a_provider_at_its_limit_is_waited_for_or_left_to_the_next_as_is_set() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    for (when_busy, expected) in [("wait", "first"), ("next", "second")] {
        let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
        let setup = setup.set("providers.first.concurrency", 1).set("providers.first.when_busy", when_busy);
        let app = TestApp::start(&setup).await;
        first.set_fault(Fault::Delay(PATIENCE)).unwrap();
        let before = first.inbox().count();
        let slow = app.send(email_to(&format!("slow-{when_busy}@example.net"))).await;
        first.inbox().wait_until(|inbox| inbox.count() > before, PATIENCE).await.expect("it is taken");
        first.set_fault(Fault::None).unwrap();
        let behind = app.send(email_to(&format!("behind-{when_busy}@example.net"))).await;
        let settled = if when_busy == "wait" { Status::InProcess } else { Status::SuccessSent };
        app.wait_for(&behind, settled).await;
        assert_eq!(second.inbox().count(), u64::from(when_busy == "next"));

        // The slow answer is broken off, and asked for again.
        first.cut_connections();
        let behind = app.wait_for(&behind, Status::SuccessSent).await;
        assert_eq!(history(&behind), [format!("1 ATTEMPT {expected} ACCEPTED")]);
        let passed: &[&str] = if when_busy == "next" { &["first: concurrency limit"] } else { &[] };
        assert_eq!(passed_over(&behind.events[0].skipped), passed);
        assert_eq!(taken_by(&app.wait_for(&slow, Status::SuccessSent).await), "first");
        app.finish().await;
    }
}

#[tokio::test]
async fn where_all_are_busy_the_first_with_room_takes_the_message() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let mut setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    for name in ["first", "second"] {
        setup = setup.set(&format!("providers.{name}.concurrency"), 1);
        setup = setup.set(&format!("providers.{name}.when_busy"), "next");
    }
    let app = TestApp::start(&setup).await;
    for sink in [&first, &second] {
        sink.set_fault(Fault::Delay(Duration::from_millis(20))).unwrap();
    }
    let ids = app.send_all(emails("ada", 40)).await;
    for status in app.wait_for_all(&ids, Status::SuccessSent).await {
        assert_eq!((status.rounds, status.events.len()), (1, 1), "{:?}", history(&status));
    }
    let (by_first, by_second) = (first.inbox().count(), second.inbox().count());
    assert!(by_first >= 10 && by_second >= 10 && by_first + by_second == 40, "{by_first} and {by_second}");
    app.finish().await;
}

#[tokio::test]
async fn a_provider_that_may_have_the_message_is_waited_for_whatever_is_set() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).set("retry.pause", "3s");
    let setup = setup.set("providers.first.concurrency", 1).set("providers.first.when_busy", "next");
    let app = TestApp::start(&setup).await;
    first.set_fault(Fault::DropAfterAccept).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    app.wait_for(&id, Status::RequiredResend).await;
    first.set_fault(Fault::Delay(PATIENCE)).unwrap();
    let slow = app.send(email_to("slow@example.net")).await;
    let is_taken = |inbox: &Inbox| !inbox.by_recipient("slow@example.net").is_empty();
    first.inbox().wait_until(is_taken, PATIENCE).await.expect("it is taken");
    first.set_fault(Fault::None).unwrap();
    app.wait_for(&id, Status::InProcess).await;
    // Who has no reason to wait goes on meanwhile.
    let other = app.send(email_to("other@example.net")).await;
    assert_eq!(taken_by(&app.wait_for(&other, Status::SuccessSent).await), "second");
    assert_eq!(app.status(&id).await.status(), Status::InProcess);

    first.cut_connections();
    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT first OUTCOME_UNKNOWN", "2 ATTEMPT first ACCEPTED"]);
    app.wait_for(&slow, Status::SuccessSent).await;
    assert_eq!(second.inbox().count(), 1);
    app.finish().await;
}
