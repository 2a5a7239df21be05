//! `kill -9` of a process that sends.

use std::time::Duration;

use postrider::{
    proto::v1::Status,
    sandbox::{http, smtp},
};

use super::{arrived, gateway, relay};
use crate::support::{
    caller::{emails, has_unknown, held, history, until},
    postgres::Database,
    process::Process,
    setup::Setup,
};

/// As [`Setup::new`], with a lease that ends soon.
fn setup() -> Setup {
    Setup::new().set("dispatch.lease", "2s")
}

#[tokio::test]
async fn what_a_killed_process_was_sending_is_taken_over_and_only_that_may_arrive_twice() {
    let (database, gateway) = (Database::new().await, gateway().await);
    let setup = setup().http("gateway", &gateway.url());
    let killed = Process::start(&database, &setup).await;
    let sent = killed.send_all(emails("sent", 10)).await;
    killed.wait_for_all(&sent, Status::SuccessSent).await;
    // Taken at once, answered when nobody listens any more.
    gateway.set_fault(http::Fault::Delay(Duration::from_secs(60))).unwrap();
    let sending = killed.send_all(emails("sending", 10)).await;
    arrived(&gateway.inbox(), 20).await;
    killed.kill().await;
    gateway.set_fault(http::Fault::None).unwrap();

    let other = Process::start(&database, &setup).await;
    for status in other.wait_for_all(&sending, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 TAKEOVER gateway OUTCOME_UNKNOWN", "2 ATTEMPT gateway ACCEPTED"]);
    }
    for status in other.wait_for_all(&sent, Status::SuccessSent).await {
        assert!(!has_unknown(&status), "{:?}", history(&status));
    }
    let inbox = gateway.inbox();
    assert_eq!(inbox.count(), 20);
    for mail in inbox.all() {
        let was_sending = mail.recipients[0].starts_with("sending-");
        assert_eq!(mail.repeats, u32::from(was_sending), "a duplicate that the history does not account for");
    }
    other.finish().await;
}

#[tokio::test]
async fn what_was_accepted_before_a_kill_is_sent_afterwards() {
    let (database, gateway) = (Database::new().await, gateway().await);
    gateway.set_fault(http::Fault::Silent).unwrap();
    let setup = setup().http("gateway", &gateway.url()).set("dispatch.concurrency", 5);
    let killed = Process::start(&database, &setup).await;
    let ids = killed.send_all(emails("ada", 15)).await;
    until("five are taken", || async { database.count("pending where status = 'IN_PROCESS'").await == 5 }).await;
    killed.kill().await;
    gateway.set_fault(http::Fault::None).unwrap();

    let other = Process::start(&database, &setup).await;
    let statuses = other.wait_for_all(&ids, Status::SuccessSent).await;
    assert_eq!(statuses.iter().filter(|status| has_unknown(status)).count(), 5);
    assert_eq!((gateway.inbox().count(), gateway.inbox().counts().repeats), (15, 0));
    other.finish().await;
}

#[tokio::test]
async fn after_a_kill_at_the_final_dot_who_asked_for_no_duplicate_gets_none() {
    let (database, relay) = (Database::new().await, relay().await);
    relay.set_fault(smtp::Fault::Delay { stage: smtp::Stage::Dot, by: Duration::from_secs(60) }).unwrap();
    let setup = setup().smtp("relay", relay.address());
    let killed = Process::start(&database, &setup).await;
    let resend = killed.send_all(emails("resend", 3)).await;
    let hold = killed.send_all(emails("hold", 3).into_iter().map(held)).await;
    arrived(&relay.inbox(), 6).await;
    killed.kill().await;
    relay.set_fault(smtp::Fault::None).unwrap();

    let other = Process::start(&database, &setup).await;
    for status in other.wait_for_all(&hold, Status::FailedOutcomeUnknown).await {
        assert_eq!(history(&status), ["1 TAKEOVER relay OUTCOME_UNKNOWN"]);
    }
    for status in other.wait_for_all(&resend, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 TAKEOVER relay OUTCOME_UNKNOWN", "2 ATTEMPT relay ACCEPTED"]);
    }
    for mail in relay.inbox().all() {
        // Recognised by its Message-ID, which stays the same.
        assert_eq!(mail.repeats, u32::from(mail.recipients[0].starts_with("resend-")));
    }
    other.finish().await;
}
