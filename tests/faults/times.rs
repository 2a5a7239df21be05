//! What is not to be sent yet, and what is not to be sent any more.

use std::time::Duration;

use postrider::{
    proto::v1::{SendEmailRequest, Status},
    sandbox::http::Fault,
};
use prost_types::Timestamp;
use time::OffsetDateTime;

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{at, email_to, history, until},
    setup::Setup,
};

fn from_now(milliseconds: u64) -> Option<Timestamp> {
    let time = OffsetDateTime::now_utc() + Duration::from_millis(milliseconds);
    Some(Timestamp { seconds: time.unix_timestamp(), nanos: i32::try_from(time.nanosecond()).unwrap() })
}

fn expiring(address: &str, milliseconds: u64) -> SendEmailRequest {
    SendEmailRequest { expire_at: from_now(milliseconds), ..email_to(address) }
}

#[tokio::test]
async fn what_is_to_be_sent_later_is_not_sent_before() {
    let gateway = gateway("gateway").await;
    let app = TestApp::start(&Setup::new().http("gateway", &gateway.url())).await;
    let send_at = from_now(3_000);
    let later = app.send(SendEmailRequest { send_at, ..email_to("later@example.net") }).await;
    let now = app.send(email_to("now@example.net")).await;
    app.wait_for(&now, Status::SuccessSent).await;
    let waiting = app.status(&later).await;
    assert_eq!((waiting.status(), waiting.events.len()), (Status::NotYetSent, 0));
    assert!(waiting.waiting_for.starts_with("its scheduled time, "), "{}", waiting.waiting_for);

    app.wait_for(&later, Status::SuccessSent).await;
    let arrived = gateway.inbox().by_recipient("later@example.net")[0].received_at;
    assert!(arrived >= at(send_at), "sent {} too early", at(send_at) - arrived);
    app.finish().await;
}

#[tokio::test]
async fn what_is_not_sent_in_time_expires_unless_it_may_have_been_sent() {
    let gateway = gateway("gateway").await;
    let setup = Setup::new().http("gateway", &gateway.url()).set("retry.pause", "1h");
    let app = TestApp::start(&setup).await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let refused = app.send(expiring("refused@example.net", 700)).await;
    app.wait_for(&refused, Status::RequiredResend).await;
    gateway.set_fault(Fault::DropAfterAccept).unwrap();
    let unknown = app.send(expiring("unknown@example.net", 700)).await;
    app.wait_for(&unknown, Status::RequiredResend).await;
    gateway.set_fault(Fault::None).unwrap();

    let refused = app.wait_for(&refused, Status::Expired).await;
    assert_eq!(history(&refused), ["1 ATTEMPT gateway UNAVAILABLE", "EXPIRED"]);
    assert!(refused.finished_at.is_some());
    let unknown = app.wait_for(&unknown, Status::FailedOutcomeUnknown).await;
    assert_eq!(history(&unknown), ["1 ATTEMPT gateway OUTCOME_UNKNOWN", "EXPIRED"]);
    assert_eq!(gateway.inbox().count(), 1, "only what was taken without an answer");
    app.finish().await;
}

#[tokio::test]
async fn what_waits_for_a_provider_expires_too() {
    let gateway = gateway("gateway").await;
    let setup = Setup::new().http("gateway", &gateway.url()).set("retry.pause", "1h");
    let setup = setup.set("providers.gateway.breaker.min_calls", 1).set("providers.gateway.breaker.open_for", "1h");
    let app = TestApp::start(&setup.set("providers.gateway.breaker.open_longest", "1h")).await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let broke = app.send(email_to("broke@example.net")).await;
    app.wait_for(&broke, Status::RequiredResend).await;
    gateway.set_fault(Fault::None).unwrap();

    let waiting = app.send(expiring("waiting@example.net", 500)).await;
    let expired = app.wait_for(&waiting, Status::Expired).await;
    assert_eq!((expired.rounds, history(&expired)), (0, vec!["EXPIRED".into()]));
    assert_eq!(gateway.inbox().count(), 0);
    app.finish().await;
}

#[tokio::test]
async fn what_waits_for_its_turn_at_a_provider_expires_there() {
    let gateway = gateway("gateway").await;
    let setup = Setup::new().http("gateway", &gateway.url()).set("providers.gateway.concurrency", 1);
    let app = TestApp::start(&setup).await;
    gateway.set_fault(Fault::Delay(Duration::from_millis(1200))).unwrap();
    let slow = app.send(email_to("slow@example.net")).await;
    gateway.inbox().wait_until(|inbox| inbox.count() == 1, crate::support::caller::PATIENCE).await.expect("taken");
    let behind = app.send(expiring("behind@example.net", 600)).await;

    let expired = app.wait_for(&behind, Status::Expired).await;
    assert_eq!(history(&expired), ["EXPIRED"]);
    app.wait_for(&slow, Status::SuccessSent).await;
    assert_eq!(gateway.inbox().by_recipient("behind@example.net").len(), 0);
    app.finish().await;
}

#[tokio::test]
async fn what_waits_expires_though_every_place_is_taken() {
    let gateway = gateway("gateway").await;
    gateway.set_fault(Fault::Silent).unwrap();
    let setup = Setup::new().http("gateway", &gateway.url()).set("dispatch.concurrency", 1);
    let app = TestApp::start(&setup.set("dispatch.drain_limit", "0ms")).await;
    let stuck = app.send(email_to("stuck@example.net")).await;
    until("the only place is taken", || async { gateway.connections() == 1 }).await;
    let waiting = app.send(expiring("waiting@example.net", 300)).await;
    app.wait_for(&waiting, Status::Expired).await;
    assert_eq!(app.status(&stuck).await.status(), Status::InProcess);
    app.finish().await;
}
