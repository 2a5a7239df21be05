//! A process that is told to stop.

use std::time::Duration;

use postrider::sandbox::http::Fault;

use super::{arrived, gateway};
use crate::support::{
    caller::{emails, held, until},
    http_peer::{Behaviour, HttpPeer, response},
    postgres::Database,
    process::Process,
    setup::Setup,
};

/// Three at the provider, as many taken behind them.
fn setup(url: &str) -> Setup {
    Setup::new().http("gateway", url).set("providers.gateway.concurrency", 3).set("retry.pause", "1h")
}

#[tokio::test]
async fn what_is_under_way_is_finished_and_the_rest_given_back_at_once() {
    let (database, gateway) = (Database::new().await, gateway().await);
    gateway.set_fault(Fault::Delay(Duration::from_secs(1))).unwrap();
    let stopping = Process::start(&database, &setup(&gateway.url())).await;
    stopping.send_all(emails("ada", 10)).await;
    arrived(&gateway.inbox(), 3).await;
    until("as many wait as are sent", || async { database.count("pending where status = 'IN_PROCESS'").await == 6 })
        .await;
    stopping.terminate();

    let given_back = "pending where status = 'NOT_YET_SENT' and due_at <= now() and rounds = 0 and attempts = 0";
    until("seven wait again or still", || async { database.count(given_back).await == 7 }).await;
    assert_eq!(database.count("outbox where status = 'SUCCESS_SENT'").await, 0, "before the others are finished");
    assert!(stopping.ended().await.success());
    assert_eq!(database.count("outbox where status = 'SUCCESS_SENT'").await, 3);
    assert_eq!(database.count("event").await, 3);
    assert_eq!(gateway.inbox().count(), 3, "nothing was begun any more");
}

#[tokio::test]
async fn at_the_limit_what_was_begun_is_of_unknown_outcome() {
    let (database, gateway) = (Database::new().await, gateway().await);
    gateway.set_fault(Fault::Silent).unwrap();
    let stopping = Process::start(&database, &setup(&gateway.url()).set("dispatch.drain_limit", "300ms")).await;
    stopping.send_all(emails("ada", 8).into_iter().chain(emails("held", 2).into_iter().map(held))).await;
    until("three are begun", || async { gateway.connections() == 3 }).await;
    until("as many wait as are sent", || async { database.count("pending where status = 'IN_PROCESS'").await == 6 })
        .await;
    stopping.terminate();
    assert!(stopping.ended().await.success());
    assert_eq!(database.count("pending where status = 'IN_PROCESS'").await, 0);

    let rows: Vec<(String, Option<String>, i32)> =
        sqlx::query_as("select status::text, last_code, rounds from outbox where attempts > 0")
            .fetch_all(&database.sql)
            .await
            .unwrap();
    // Under HOLD too, since a gateway can tell by the key whether it has it.
    assert_eq!(rows, vec![("REQUIRED_RESEND".into(), Some("stopped".into()), 1); 3]);
    assert_eq!(database.count("outbox where status = 'NOT_YET_SENT' and due_at <= now() and rounds = 0").await, 7);
}

#[tokio::test]
async fn what_waited_for_its_turn_at_the_next_provider_has_only_asked_the_first() {
    let (database, second) = (Database::new().await, gateway().await);
    second.set_fault(Fault::Silent).unwrap();
    let down = Behaviour::Answer(response(503, "", ""));
    let mut first = HttpPeer::start(&[down]).await;
    let setup = Setup::new().http("first", &first.url()).http("second", &second.url());
    let setup = setup.set("providers.second.concurrency", 1).set("retry.pause", "1h");
    let stopping = Process::start(&database, &setup.set("dispatch.drain_limit", "500ms")).await;
    stopping.send_all(emails("ada", 3)).await;
    for _ in 0..3 {
        first.request().await;
    }
    until("one is begun at the second", || async { second.connections() == 1 }).await;
    stopping.terminate();
    assert!(stopping.ended().await.success());

    let shown: Vec<String> = sqlx::query_scalar(
        "select string_agg(provider || ' ' || class::text, ', ' order by ordinal)
        from event group by message_id order by 1",
    )
    .fetch_all(&database.sql)
    .await
    .unwrap();
    let both = "first UNAVAILABLE, second OUTCOME_UNKNOWN";
    assert_eq!(shown, ["first UNAVAILABLE", "first UNAVAILABLE", both]);
    assert_eq!(database.count("outbox where status = 'REQUIRED_RESEND' and rounds = 1").await, 3);
}
