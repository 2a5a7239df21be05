//! The decision record: who was considered for each attempt and why each was passed over, and what a message waits for.

use std::time::Duration;

use postrider::{
    proto::v1::{Priority, SendEmailRequest, SetLaneModeRequest, Status},
    sandbox::http::Fault,
};
use prost_types::Timestamp;
use time::OffsetDateTime;

use super::{gateway, passed_over, relay, status};
use crate::support::{
    app::TestApp,
    caller::{at, email_to, history},
    setup::Setup,
};

#[tokio::test]
async fn each_attempt_tells_who_was_passed_over_before_it_and_why() {
    let (open, throttled, last) = (gateway("open").await, gateway("throttled").await, relay("last").await);
    let setup = Setup::new().http("open", &open.url()).http("throttled", &throttled.url());
    let setup = setup.smtp("last", last.address()).set("providers.open.breaker.min_calls", 1);
    let app = TestApp::start(
        &setup.set("providers.open.breaker.open_for", "1h").set("providers.open.breaker.open_longest", "1h"),
    )
    .await;
    open.set_fault(status(503)).unwrap();
    throttled.set_fault(Fault::Status { code: 429, retry_after: Some(3600) }).unwrap();
    let first = app.send(email_to("first@example.net")).await;
    let first = app.wait_for(&first, Status::SuccessSent).await;
    assert_eq!(
        history(&first),
        ["1 ATTEMPT open UNAVAILABLE", "1 ATTEMPT throttled THROTTLED", "1 ATTEMPT last ACCEPTED"]
    );
    assert!(first.events.iter().all(|event| event.skipped.is_empty()), "each was asked");

    let later = app.send(email_to("later@example.net")).await;
    let later = app.wait_for(&later, Status::SuccessSent).await;
    assert_eq!(history(&later), ["1 ATTEMPT last ACCEPTED"]);
    let skipped = &later.events[0].skipped;
    assert_eq!(passed_over(skipped), ["open: circuit is open", "throttled: resting after throttling"]);
    assert!(skipped.iter().all(|skip| at(skip.until) > at(later.accepted_at)));
    app.finish().await;
}

#[tokio::test]
async fn a_round_that_goes_on_after_an_attempt_tells_who_was_passed_over_between() {
    let (first, second, third) = (gateway("first").await, gateway("second").await, gateway("third").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).http("third", &third.url());
    let setup = setup.set("providers.second.account_rest", "1h").set("retry.pause", "1h");
    let app = TestApp::start(&setup).await;
    first.set_fault(status(503)).unwrap();
    second.set_fault(status(401)).unwrap();
    let id = app.send(email_to("one@example.net")).await;
    app.wait_for(&id, Status::SuccessSent).await;
    third.set_fault(status(503)).unwrap();

    let id = app.send(email_to("two@example.net")).await;
    let waiting = app.wait_for(&id, Status::RequiredResend).await;
    assert_eq!(history(&waiting), ["1 ATTEMPT first UNAVAILABLE", "1 ATTEMPT third UNAVAILABLE"]);
    assert_eq!(passed_over(&waiting.events[0].skipped), Vec::<String>::new());
    assert_eq!(passed_over(&waiting.events[1].skipped), ["second: misconfigured"]);
    assert!(waiting.waiting_for.starts_with("round 2 at "), "{}", waiting.waiting_for);
    app.finish().await;
}

#[tokio::test]
async fn what_waits_for_a_quota_or_an_account_says_so() {
    for (code, words) in
        [(402, "quota of provider gateway is used up until "), (401, "provider gateway is misconfigured until ")]
    {
        let gateway = gateway("gateway").await;
        let setup = Setup::new().http("gateway", &gateway.url()).set("providers.gateway.account_rest", "1h");
        let app = TestApp::start(&setup).await;
        gateway.set_fault(status(code)).unwrap();
        let id = app.send(email_to("ada@example.net")).await;
        let told = app.wait_for(&id, Status::RequiredResend).await;
        assert!(told.waiting_for.starts_with(words), "{}", told.waiting_for);
        let behind = app.send(email_to("bob@example.net")).await;
        let told = app.status(&behind).await;
        assert!(told.waiting_for.starts_with(words), "{}", told.waiting_for);
        app.finish().await;
    }
}

#[tokio::test]
async fn what_waits_in_a_paused_lane_says_so() {
    let gateway = gateway("gateway").await;
    let app = TestApp::start(&Setup::new().http("gateway", &gateway.url())).await;
    let lane = |paused| SetLaneModeRequest {
        chain: "default".into(),
        priority: Priority::Normal.into(),
        client: "default".into(),
        paused,
    };
    app.set_lane_mode(lane(true)).await.unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    let told = app.status(&id).await;
    assert_eq!(told.waiting_for, "its lane, which is paused (chain default, priority NORMAL, client default)");
    app.set_lane_mode(lane(false)).await.unwrap();
    app.wait_for(&id, Status::SuccessSent).await;
    app.finish().await;
}

#[tokio::test]
async fn what_expired_while_it_waited_tells_who_had_been_passed_over() {
    let (first, second) = (gateway("first").await, gateway("second").await);
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url()).set("retry.pause", "1h");
    let app = TestApp::start(&setup.set("providers.second.account_rest", "1h")).await;
    first.set_fault(status(503)).unwrap();
    second.set_fault(status(401)).unwrap();
    let id = app.send(email_to("before@example.net")).await;
    app.wait_for(&id, Status::RequiredResend).await;

    let expiry = OffsetDateTime::now_utc() + Duration::from_secs(4);
    let nanos = i32::try_from(expiry.nanosecond()).unwrap();
    let expire_at = Some(Timestamp { seconds: expiry.unix_timestamp(), nanos });
    let id = app.send(SendEmailRequest { expire_at, ..email_to("ada@example.net") }).await;
    let waiting = app.wait_for(&id, Status::RequiredResend).await;
    assert_eq!(passed_over(&waiting.skipped), ["second: misconfigured"]);
    let expired = app.wait_for(&id, Status::Expired).await;
    assert_eq!(history(&expired), ["1 ATTEMPT first UNAVAILABLE", "EXPIRED"]);
    assert_eq!(passed_over(&expired.events[1].skipped), ["second: misconfigured"]);
    assert_eq!(expired.waiting_for, "");
    app.finish().await;
}
