//! The tables of the days run short, or are not there.

use std::sync::Arc;

use serde_json::json;
use time::{Duration, OffsetDateTime, macros::format_description};
use tonic::Code;

use crate::support::{
    app::TestApp,
    caller::{email_to, until},
    postgres::Database,
    process::Process,
    setup::Setup,
};

const EMAIL: &str = "postrider.v1.EmailService";
const DAYS_AHEAD: &str = "postrider.outbox.days_ahead";

fn setup(roles: &[&str]) -> Setup {
    Setup::new()
        .http("nobody", "http://127.0.0.1:1/")
        .set("process.roles", json!(roles))
        .set("retention.interval", "100ms")
}

/// The day that many days from now, as tables are called by it.
async fn day(database: &Database, days: i64) -> String {
    let now: OffsetDateTime = database.scalar("select now()").await;
    (now + Duration::days(days)).format(format_description!("[year][month][day]")).unwrap()
}

async fn drop_day(database: &Database, day: &str) {
    database.execute(&format!("drop table message_{day}, event_{day}")).await;
}

#[tokio::test]
async fn days_that_run_short_are_told_before_messages_are_refused() {
    let database = Database::new().await;
    drop_day(&database, &day(&database, 2).await).await;
    // Nobody makes days.
    let setup = setup(&["api"]);
    let process = Process::start_as_is(&database, &setup).await;
    let told = process.wrote("tables are made for few days ahead").await;
    assert!(told.contains("\"days_ahead\":1") && told.contains("WARN"), "{told}");
    assert!(process.is_serving(EMAIL).await && process.is_ready().await && !process.is_serving(DAYS_AHEAD).await);
    process.send(email_to("ada@example.net")).await;

    database.outbox.ensure_days(3).await.unwrap();
    until("it is well", || async { process.is_serving(DAYS_AHEAD).await }).await;
    let told = process.wrote("there are days ahead again").await;
    // It may have looked while the last of them was being made.
    assert!(["2", "3"].iter().any(|days| told.contains(&format!("\"days_ahead\":{days}"))), "{told}");
    assert_eq!(process.log().matches("few days ahead").count(), 1);
    process.finish().await;
}

#[tokio::test]
async fn while_today_cannot_be_made_callers_are_sent_elsewhere() {
    let database = Arc::new(Database::new().await);
    let today = day(&database, 0).await;
    drop_day(&database, &today).await;
    // Something is in the way.
    database.execute(&format!("create table message_{today} (of_somebody_else integer)")).await;
    let app = TestApp::start_on(database.clone(), &setup(&["api", "dispatch", "maintain"])).await;
    until("it says so", || async { !app.is_serving(EMAIL).await }).await;
    assert!(app.is_ready().await && app.is_serving("postrider.v1.OperatorService").await, "the rest works");
    let refused = app.try_send(email_to("ada@example.net")).await.unwrap_err();
    assert_ne!(refused.code(), Code::InvalidArgument, "the message can do nothing about it");

    database.execute(&format!("drop table message_{today}")).await;
    until("it is well", || async { app.is_serving(EMAIL).await }).await;
    app.send(email_to("ada@example.net")).await;
    app.finish().await;
}
