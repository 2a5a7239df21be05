//! The database goes away while sends are under way, and comes back.

use std::time::Duration;

use postrider::{
    proto::v1::Status,
    sandbox::{
        http::Fault,
        postgres::{Mode, Postgres, PostgresOptions},
    },
};

use super::{arrived, gateway};
use crate::support::{
    app::TestApp,
    caller::{emails, has_unknown, history, until},
    process::Process,
    setup::Setup,
};

async fn postgres() -> Postgres {
    let postgres = Postgres::start(PostgresOptions { fsync: false, ..Default::default() }).await.expect("a Postgres");
    postgres.create_database("postrider").await.expect("a database");
    postgres
}

/// Ten messages are with the provider when the database goes, and answered while it is away.
async fn outage(setup: Setup, away_for: Duration) {
    let (postgres, gateway) = (postgres().await, gateway().await);
    gateway.set_fault(Fault::Delay(Duration::from_millis(700))).unwrap();
    let setup = setup.http("gateway", &gateway.url()).set("database.acquire_timeout", "2s");
    let service = Process::start_at(&postgres.url("postrider"), &setup).await;
    let ids = service.send_all(emails("ada", 10)).await;
    arrived(&gateway.inbox(), 10).await;
    let began = tokio::time::Instant::now();
    postgres.stop(Mode::Immediate).await.expect("it stops");
    service.wrote("outcomes are kept until the database is back").await;
    tokio::time::sleep_until(began + away_for).await;
    gateway.set_fault(Fault::None).unwrap();
    postgres.restart(Mode::Fast).await.expect("it starts again");

    for status in service.wait_for_all(&ids, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 ATTEMPT gateway ACCEPTED"]);
    }
    let more = service.send_all(emails("more", 5)).await;
    service.wait_for_all(&more, Status::SuccessSent).await;
    assert_eq!((gateway.inbox().count(), gateway.inbox().counts().repeats), (15, 0));
    service.finish().await;
}

#[tokio::test]
async fn outcomes_are_kept_while_the_database_is_away() {
    outage(Setup::new(), Duration::ZERO).await;
}

#[tokio::test]
async fn a_process_writes_its_own_outcomes_before_it_takes_over_what_lies_too_long() {
    // The leases have long run out when the database is back.
    outage(Setup::new().set("dispatch.lease", "1s"), Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_server_closes_are_made_anew_and_nothing_is_lost() {
    let gateway = gateway().await;
    let setup = Setup::new().http("gateway", &gateway.url()).set("dispatch.lease", "1s");
    let app = TestApp::start(&setup.set("dispatch.concurrency", 10)).await;
    let sending = app.send_all(emails("ada", 300));
    let closing = async {
        for _ in 0..10 {
            let sent = app.database.count("outbox where status = 'SUCCESS_SENT'").await;
            app.database
                .execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name = 'postrider'",
                )
                .await;
            let goes_on = || async { app.database.count("outbox where status = 'SUCCESS_SENT'").await > sent };
            until("it goes on", goes_on).await;
        }
    };
    let (ids, ()) = tokio::join!(sending, closing);
    let statuses = app.wait_for_all(&ids, Status::SuccessSent).await;
    let unknown = statuses.iter().filter(|status| has_unknown(status)).count();
    let counts = gateway.inbox().counts();
    assert_eq!(counts.mails, 300);
    assert!(counts.repeats <= unknown as u64, "{} duplicates, {unknown} of unknown outcome", counts.repeats);
    app.finish().await;
}
