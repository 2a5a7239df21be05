//! Processes that each do a part of it, on one database.

use postrider::{
    proto::v1::Status,
    sandbox::postgres::{Mode, Postgres, PostgresOptions},
};
use serde_json::json;
use tonic::Code;

use super::gateway;
use crate::support::{
    caller::{email_to, emails, history, until},
    postgres::Database,
    process::Process,
    setup::Setup,
};

fn setup(roles: &[&str]) -> Setup {
    Setup::new().set("process.roles", json!(roles)).set("retention.interval", "100ms")
}

#[tokio::test]
async fn one_process_accepts_another_sends_and_a_third_maintains() {
    let (database, gateway) = (Database::new().await, gateway().await);
    // Only who sends has to know of providers. It does not look for itself, so it has to be told.
    let sending = setup(&["dispatch"]).http("gateway", &gateway.url()).set("dispatch.poll_longest", "10m");
    let (api, maintain) = (setup(&["api"]), setup(&["maintain"]).set("retention.days_ahead", 9));
    let (api, dispatch, maintain) = tokio::join!(
        Process::start(&database, &api),
        Process::start(&database, &sending),
        Process::start(&database, &maintain)
    );
    for process in [&api, &dispatch, &maintain] {
        assert!(process.is_ready().await);
    }
    let ids = api.send_all(emails("ada", 20)).await;
    for status in api.wait_for_all(&ids, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 ATTEMPT gateway ACCEPTED"]);
    }
    assert_eq!((gateway.inbox().count(), gateway.inbox().counts().repeats), (20, 0));
    for other in [&dispatch, &maintain] {
        let status = other.try_send(email_to("ada@example.net")).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
    }

    // What nobody but the third does.
    let days = "pg_inherits where inhparent = 'message'::regclass";
    let before = database.count(days).await;
    let (newest, table): (String, String) = sqlx::query_as(
        "select inhparent::regclass::text, inhrelid::regclass::text from pg_inherits
        where inhparent = 'event'::regclass order by 2 desc limit 1",
    )
    .fetch_one(&database.sql)
    .await
    .unwrap();
    let day = table.trim_start_matches("event_");
    database.execute(&format!("drop table {newest}_{day}, message_{day}")).await;
    until("the day is there again", || async { database.count(days).await == before }).await;
    database.tally_is_exact().await;
    for process in [api, dispatch, maintain] {
        process.finish().await;
    }
}

#[tokio::test]
async fn who_only_accepts_or_maintains_says_when_the_database_is_away() {
    let postgres = Postgres::start(PostgresOptions { fsync: false, ..Default::default() }).await.unwrap();
    postgres.create_database("postrider").await.unwrap();
    let url = postgres.url("postrider");
    let setups = [setup(&["api"]), setup(&["maintain"])].map(|setup| setup.set("database.acquire_timeout", "3s"));
    let [api, maintain] = setups.each_ref().map(|setup| Process::start_at(&url, setup));
    let (api, maintain) = tokio::join!(api, maintain);
    postgres.stop(Mode::Immediate).await.unwrap();
    for process in [&api, &maintain] {
        until("it is not ready", || async { !process.is_ready().await }).await;
        process.wrote("the database does not answer").await;
    }
    postgres.restart(Mode::Fast).await.unwrap();
    for process in [&api, &maintain] {
        until("it is ready", || async { process.is_ready().await }).await;
        process.wrote("the database is back").await;
    }
    api.send(email_to("ada@example.net")).await;
    api.finish().await;
    maintain.finish().await;
}
