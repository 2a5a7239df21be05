//! Processes that tell each other what they accept, and those that cannot.

use std::{sync::Arc, time::Duration};

use postrider::proto::v1::Status;
use serde_json::json;
use tokio::time::Instant;

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{email_to, until},
    postgres::Database,
    setup::Setup,
};

/// One that only accepts and one that only sends, which looks for itself so rarely that a test would not see it.
async fn pair(database: &Arc<Database>, gateway_url: &str, change: impl Fn(Setup) -> Setup) -> (TestApp, TestApp) {
    let setup = || change(Setup::new().set("dispatch.poll_shortest", "50s").set("dispatch.poll_longest", "60s"));
    let sending = setup().set("process.roles", json!(["dispatch", "maintain"])).http("gateway", gateway_url);
    let dispatch = TestApp::start_on(database.clone(), &sending).await;
    until("it is there", || async { database.count("dispatcher").await == 1 }).await;
    let accepting = setup().set("process.roles", json!(["api"]));
    let api = TestApp::start_on(database.clone(), &accepting).await;
    until("both are there", || async { database.count("dispatcher").await == 2 }).await;
    (api, dispatch)
}

async fn listeners(database: &Database) -> Vec<i32> {
    sqlx::query_scalar(
        "select pid from pg_stat_activity
        where datname = current_database() and application_name = 'postrider listener' and query like 'LISTEN%'",
    )
    .fetch_all(&database.sql)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_accepted_another_sends_at_once_also_after_its_connection_was_lost() {
    let (database, gateway) = (Arc::new(Database::new().await), gateway().await);
    let (api, dispatch) = pair(&database, &gateway.url(), |setup| setup).await;
    until("it listens", || async { listeners(&database).await.len() == 1 }).await;
    let began = Instant::now();
    for nth in 0..5 {
        let id = api.send(email_to(&format!("ada-{nth}@example.net"))).await;
        api.wait_for(&id, Status::SuccessSent).await;
    }

    let lost = listeners(&database).await;
    database.execute(&format!("select pg_terminate_backend({})", lost[0])).await;
    let id = api.send(email_to("meanwhile@example.net")).await;
    api.wait_for(&id, Status::SuccessSent).await;
    until("it listens again", || async { listeners(&database).await.iter().any(|pid| *pid != lost[0]) }).await;
    let id = api.send(email_to("afterwards@example.net")).await;
    api.wait_for(&id, Status::SuccessSent).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());

    api.finish().await;
    dispatch.finish().await;
    let there = "dispatcher where seen_at > now() - interval '30 seconds'";
    assert_eq!(database.count(there).await, 0, "who stops takes leave");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_of_transactions_looking_is_enough() {
    let (database, gateway) = (Arc::new(Database::new().await), gateway().await);
    let by_transaction = |setup: Setup| {
        let setup = setup.set("database.pooling", "transaction");
        setup.set("dispatch.poll_shortest", "20ms").set("dispatch.poll_longest", "200ms")
    };
    let (api, dispatch) = pair(&database, &gateway.url(), by_transaction).await;
    for nth in 0..5 {
        let id = api.send(email_to(&format!("ada-{nth}@example.net"))).await;
        api.wait_for(&id, Status::SuccessSent).await;
    }
    assert!(listeners(&database).await.is_empty());
    api.finish().await;
    dispatch.finish().await;
}
