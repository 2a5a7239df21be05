//! What is due later is sent when it is due, by a dispatcher that sleeps until then.

use std::{sync::Arc, time::Duration};

use postrider::{
    proto::v1::{SendEmailRequest, Status},
    sandbox::http::Fault,
};
use serde_json::json;
use time::OffsetDateTime;

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{at, email_to, history, until},
    postgres::Database,
    setup::Setup,
};

/// By how much it may be late on a machine that does other things too; by looking alone it would be half a minute.
const LATE: Duration = Duration::from_millis(1500);

fn setup() -> Setup {
    Setup::new().set("dispatch.poll_shortest", "30s").set("dispatch.poll_longest", "30s")
}

fn scheduled(address: &str, due_at: OffsetDateTime) -> SendEmailRequest {
    let nanos = i32::try_from(due_at.nanosecond()).unwrap();
    let send_at = prost_types::Timestamp { seconds: due_at.unix_timestamp(), nanos };
    SendEmailRequest { send_at: Some(send_at), ..email_to(address) }
}

fn in_ms(ms: u64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::from_millis(ms)
}

async fn is_sent_in_time(app: &TestApp, id: &str, due_at: OffsetDateTime) {
    let status = app.wait_for(id, Status::SuccessSent).await;
    let sent_at = at(status.events[0].started_at);
    assert!(sent_at >= due_at - Duration::from_millis(50), "{sent_at} is before {due_at}");
    assert!(sent_at < due_at + LATE, "{sent_at} is long after {due_at}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_be_sent_later_is_sent_then() {
    let gateway = gateway().await;
    let app = TestApp::start(&setup().http("gateway", &gateway.url())).await;
    let dues = [in_ms(1200), in_ms(700), in_ms(950)];
    let mut ids = Vec::new();
    for (nth, due_at) in dues.iter().enumerate() {
        ids.push(app.send(scheduled(&format!("ada-{nth}@example.net"), *due_at)).await);
    }
    for (id, due_at) in ids.iter().zip(dues) {
        is_sent_in_time(&app, id, due_at).await;
    }
    app.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_scheduled_before_a_process_began_is_sent_in_time_one_after_the_other() {
    let (database, gateway) = (Arc::new(Database::new().await), gateway().await);
    let api = TestApp::start_on(database.clone(), &setup().set("process.roles", json!(["api"]))).await;
    let dues = [in_ms(2500), in_ms(2800), in_ms(3100)];
    let mut ids = Vec::new();
    for (nth, due_at) in dues.iter().enumerate() {
        ids.push(api.send(scheduled(&format!("ada-{nth}@example.net"), *due_at)).await);
    }
    let sending = setup().set("process.roles", json!(["dispatch", "maintain"])).http("gateway", &gateway.url());
    let dispatch = TestApp::start_on(database.clone(), &sending).await;
    for (id, due_at) in ids.iter().zip(dues) {
        is_sent_in_time(&api, id, due_at).await;
    }
    api.finish().await;
    dispatch.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_scheduled_is_sent_then() {
    let (database, gateway) = (Arc::new(Database::new().await), gateway().await);
    let sending = setup().set("process.roles", json!(["dispatch", "maintain"])).http("gateway", &gateway.url());
    let dispatch = TestApp::start_on(database.clone(), &sending).await;
    let listens = "pg_stat_activity where datname = current_database() and application_name = 'postrider listener'";
    until("it listens", || async { database.count(listens).await == 1 && database.count("dispatcher").await == 1 })
        .await;
    let api = TestApp::start_on(database.clone(), &setup().set("process.roles", json!(["api"]))).await;
    until("both are there", || async { database.count("dispatcher").await == 2 }).await;
    let due_at = in_ms(1200);
    let id = api.send(scheduled("ada@example.net", due_at)).await;
    is_sent_in_time(&api, &id, due_at).await;
    api.finish().await;
    dispatch.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_round_begins_when_its_pause_is_over() {
    let gateway = gateway().await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let app = TestApp::start(&setup().http("gateway", &gateway.url()).set("retry.pause", "400ms")).await;
    let id = app.send(email_to("ada@example.net")).await;
    app.wait(&id, |status| status.rounds == 1).await;
    gateway.set_fault(Fault::None).unwrap();
    let status = app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(history(&status), ["1 ATTEMPT gateway UNAVAILABLE", "2 ATTEMPT gateway ACCEPTED"]);
    let [first, second] = [&status.events[0], &status.events[1]].map(|event| at(event.started_at));
    assert!(second - first >= Duration::from_millis(400) && second - first < Duration::from_millis(400) + LATE);
    app.finish().await;
}
