//! The database goes away while sends are under way, and comes back.

use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use http::HeaderMap;
use postrider::{
    proto::v1::Status,
    sandbox::postgres::{Mode, Postgres, PostgresOptions},
};
use tokio::{
    net::TcpListener,
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::gateway;
use crate::support::{
    app::TestApp,
    caller::{PATIENCE, emails, has_unknown, history, until},
    process::Process,
    setup::Setup,
};

async fn postgres() -> Postgres {
    let postgres = Postgres::start(PostgresOptions { fsync: false, ..Default::default() }).await.expect("a Postgres");
    postgres.create_database("postrider").await.expect("a database");
    postgres
}

/// A gateway that answers when it is told to, and from then on at once.
struct HeldGateway {
    url: String,
    asked: watch::Receiver<Vec<String>>,
    answers: watch::Sender<bool>,
}

impl HeldGateway {
    async fn start() -> Self {
        let (note, asked) = watch::channel(Vec::new());
        let (answers, may_answer) = watch::channel(false);
        let answer = move |headers: HeaderMap| {
            let key = headers["idempotency-key"].to_str().expect("a key").to_owned();
            note.send_modify(|keys| keys.push(key));
            let mut may_answer = may_answer.clone();
            async move {
                may_answer.wait_for(|may| *may).await.expect("the test goes on");
                axum::Json(serde_json::json!({ "id": "g-1" }))
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
        Self { url, asked, answers }
    }

    async fn was_asked(&self, times: usize) {
        let mut asked = self.asked.clone();
        let waited = timeout(PATIENCE, asked.wait_for(|keys| keys.len() >= times)).await;
        waited.expect("asked in time").expect("the gateway runs");
    }

    /// How often it was asked, and for how many messages.
    fn counts(&self) -> (usize, usize) {
        let keys = self.asked.borrow();
        (keys.len(), keys.iter().collect::<BTreeSet<_>>().len())
    }
}

/// So many processes have five messages each with the provider when the database goes. The answers come while it is away,
/// and it stays away for that long.
async fn outage(processes: usize, setup: Setup, away_for: Duration) {
    let (postgres, gateway) = (postgres().await, HeldGateway::start().await);
    let setup = setup.http("gateway", &gateway.url).set("dispatch.concurrency", 5);
    let setup = setup.set("database.acquire_timeout", "1s");
    let url = postgres.url("postrider");
    let services = join_all((0..processes).map(|_| Process::start_at(&url, &setup))).await;
    let ids = services[0].send_all(emails("ada", 5 * processes)).await;
    gateway.was_asked(ids.len()).await;
    postgres.stop(Mode::Immediate).await.expect("it stops");
    let back = Instant::now() + away_for;
    gateway.answers.send_replace(true);
    for service in &services {
        service.wrote("outcomes are kept until the database is back").await;
        until("it says that it is not ready", || async { !service.is_ready().await }).await;
    }
    sleep_until(back).await;
    postgres.restart(Mode::Fast).await.expect("it starts again");

    for status in services[0].wait_for_all(&ids, Status::SuccessSent).await {
        assert_eq!(history(&status), ["1 ATTEMPT gateway ACCEPTED"]);
    }
    until("it says that it is ready", || services[0].is_ready()).await;
    let more = services[0].send_all(emails("more", 5)).await;
    services[0].wait_for_all(&more, Status::SuccessSent).await;
    assert_eq!(gateway.counts(), (ids.len() + 5, ids.len() + 5), "something was sent twice");
    for service in services {
        service.finish().await;
    }
}

#[tokio::test]
async fn outcomes_are_kept_while_the_database_is_away() {
    outage(1, Setup::new(), Duration::ZERO).await;
}

#[tokio::test]
async fn a_process_writes_its_own_outcomes_before_it_takes_over_what_lies_too_long() {
    // The leases have long run out when the database is back.
    outage(1, Setup::new().set("dispatch.lease", "3s"), Duration::from_secs(4)).await;
}

#[tokio::test]
async fn after_an_outage_others_are_given_time_to_write_their_outcomes() {
    outage(2, Setup::new().set("dispatch.lease", "3s"), Duration::from_secs(4)).await;
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
