//! Two processes on one database.

use std::time::Duration;

use postrider::{proto::v1::Status, sandbox::http::Fault};

use super::gateway;
use crate::support::{
    caller::{emails, history},
    postgres::Database,
    process::Process,
    setup::Setup,
};

#[tokio::test]
async fn two_processes_share_the_work_and_each_message_is_sent_once() {
    let (database, gateway) = (Database::new().await, gateway().await);
    gateway.set_fault(Fault::Delay(Duration::from_millis(5))).unwrap();
    let setup = Setup::new().http("gateway", &gateway.url());
    // So little at once that neither can do it all.
    let setup = setup.set("dispatch.concurrency", 8).set("dispatch.claim_size", 4);
    let setup = setup.set("telemetry.log_level", "info,postrider::dispatcher=debug");
    let (one, other) = tokio::join!(Process::start(&database, &setup), Process::start(&database, &setup));
    let (some, more) = tokio::join!(one.send_all(emails("some", 120)), other.send_all(emails("more", 120)));

    // Each is asked about those that the other accepted.
    let (some, more) =
        tokio::join!(other.wait_for_all(&some, Status::SuccessSent), one.wait_for_all(&more, Status::SuccessSent));
    for status in some.iter().chain(&more) {
        assert_eq!(history(status), ["1 ATTEMPT gateway ACCEPTED"]);
    }
    let counts = gateway.inbox().counts();
    assert_eq!((counts.mails, counts.recipients, counts.repeats), (240, 240, 0));
    let settled = |process: &Process| process.log().matches("\"settled\"").count();
    let (by_one, by_other) = (settled(&one), settled(&other));
    assert!(by_one > 0 && by_other > 0, "one did nothing: {by_one} and {by_other}");
    one.finish().await;
    other.finish().await;
}

#[tokio::test]
async fn a_process_that_is_full_does_not_forget_what_waits() {
    let (database, gateway) = (Database::new().await, gateway().await);
    gateway.set_fault(Fault::Delay(Duration::from_millis(20))).unwrap();
    // More room at the provider than places in the process; and nobody looks by himself in the time of a test.
    let setup = Setup::new().http("gateway", &gateway.url()).set("dispatch.concurrency", 2);
    let setup = setup.set("dispatch.express", false).set("dispatch.poll_longest", "10m");
    let process = Process::start(&database, &setup).await;
    let ids = process.send_all(emails("some", 60)).await;
    process.wait_for_all(&ids, Status::SuccessSent).await;
    process.finish().await;
}
