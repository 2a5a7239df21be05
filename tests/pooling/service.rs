//! A whole service behind a pooler, which loses its connections and its process.

use std::{sync::Arc, time::Duration};

use postrider::{
    config::{self, Pooling, Retention},
    delivery::Class,
    outbox::{Outbox, OutboxError, Retirement},
    proto::v1::Status,
    sandbox::http::{Fault, HttpOptions, HttpSink},
};
use secrecy::ExposeSecret;
use tokio::{task::JoinSet, time::timeout};

use super::{BOTH, Pooled, claim_of};
use crate::{
    outbox::{Draft, attempt, settlement},
    support::{
        app::TestApp,
        caller::{emails, has_unknown, until},
        process::Process,
        setup::Setup,
    },
};

const MAILS: usize = 300;

fn word(pooling: Pooling) -> &'static str {
    match pooling {
        Pooling::Session => "session",
        Pooling::Transaction => "transaction",
    }
}

/// What a test does to the way between service and database.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// Postgres ends the pooler's connections.
    Terminated,
    /// The pooler makes its connections anew.
    Reconnected,
    /// The pooler drops its clients, and its connections.
    Killed,
    /// The pooler is killed and started again.
    Restarted,
}

impl Blow {
    const ALL: [Self; 4] = [Self::Terminated, Self::Reconnected, Self::Killed, Self::Restarted];

    async fn strike(self, pooled: &mut Pooled, name: &str) {
        match self {
            Self::Terminated => pooled.terminate_server_connections().await,
            Self::Reconnected => {
                pooled.pgbouncer.console(&format!("reconnect {name}"), "", name).await;
            }
            Self::Killed => {
                pooled.pgbouncer.console(&format!("kill {name}"), "", name).await;
                pooled.pgbouncer.console(&format!("resume {name}"), "", name).await;
            }
            Self::Restarted => pooled.pgbouncer.restart().await,
        }
    }
}

async fn sent(pooled: &Pooled) -> i64 {
    pooled.count("outbox where status = 'SUCCESS_SENT'").await
}

async fn under_blows(pooling: Pooling) {
    let Some(mut pooled) = Pooled::new(pooling).await else { return };
    let gateway = HttpSink::start(HttpOptions::default()).await.unwrap();
    let setup = Setup::new()
        .http("gateway", &gateway.url())
        .set("database.pooling", word(pooling))
        .set("dispatch.lease", "1s")
        .set("dispatch.concurrency", 10);
    let seen = Arc::new(pooled.pgbouncer.in_front_of(&pooled.direct).await);
    let app = TestApp::start_on(seen, &setup).await;
    let sending = app.send_all(emails("ada", MAILS));
    let name = pooled.name().await;
    let striking = async {
        for blow in Blow::ALL.into_iter().cycle().take(2 * Blow::ALL.len()) {
            let before = sent(&pooled).await;
            blow.strike(&mut pooled, &name).await;
            let goes_on = || async { sent(&pooled).await > before };
            until(&format!("it goes on after it was {blow:?}"), goes_on).await;
        }
        sent(&pooled).await
    };
    let (ids, sent_meanwhile) = tokio::join!(sending, striking);
    assert!(sent_meanwhile < MAILS as i64, "the last blow came before the end");
    let statuses = app.wait_for_all(&ids, Status::SuccessSent).await;
    let unknown = statuses.iter().filter(|status| has_unknown(status)).count();
    let counts = gateway.inbox().counts();
    assert_eq!(counts.mails, MAILS as u64);
    assert!(counts.repeats <= unknown as u64, "{} duplicates, {unknown} of unknown outcome", counts.repeats);
    app.finish().await;
}

#[tokio::test]
async fn whoever_watches_hears_of_changes_behind_a_transaction_pooler() {
    let Some(pooled) = Pooled::new(Pooling::Transaction).await else { return };
    let gateway = HttpSink::start(HttpOptions::default()).await.unwrap();
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let setup = Setup::new()
        .http("gateway", &gateway.url())
        .set("database.pooling", word(Pooling::Transaction))
        .set("retry.max_rounds", 1000);
    let seen = Arc::new(pooled.pgbouncer.in_front_of(&pooled.direct).await);
    let (app, watching) = (TestApp::start_on(seen.clone(), &setup).await, TestApp::start_on(seen, &setup).await);
    let ids = app.send_all(emails("ada", 20)).await;
    let all = futures_util::future::join_all(ids.iter().map(|id| watching.watch(id)));
    let healing = async {
        app.wait(&ids[0], |status| status.rounds >= 2).await;
        gateway.set_fault(Fault::None).unwrap();
    };
    let (told, ()) = tokio::join!(all, healing);
    for told in told {
        assert_eq!(told.last().expect("it was told").status(), Status::SuccessSent);
    }
    let id = app.send(emails("later", 1).remove(0)).await;
    app.wait_for(&id, Status::SuccessSent).await;
    assert_eq!(app.cancel(&id).await.status(), Status::SuccessSent, "calls of the same pooler");
    app.finish().await;
    watching.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_behind_a_session_pooler_that_loses_its_connections() {
    under_blows(Pooling::Session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_behind_a_transaction_pooler_that_loses_its_connections() {
    under_blows(Pooling::Transaction).await;
}

#[tokio::test]
async fn a_statement_whose_connection_the_pooler_closed_is_made_again() {
    for pooling in BOTH {
        let Some(mut pooled) = Pooled::new(pooling).await else { return };
        let (outbox, name) = (pooled.another_process().await, pooled.name().await);
        for blow in Blow::ALL {
            // Several connections that were used just now.
            let draft = Draft::default();
            let accepting: Vec<_> = (0..8).map(|_| draft.accept(&outbox, 1)).collect();
            futures_util::future::join_all(accepting).await;
            blow.strike(&mut pooled, &name).await;
            for _ in 0..8 {
                Draft::default().accept(&outbox, 1).await;
            }
        }
        assert_eq!(pooled.count("message").await, 16 * Blow::ALL.len() as i64);
        outbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_makes_its_tables_and_sends_behind_a_pooler() {
    for pooling in BOTH {
        let Some(pooled) = Pooled::new(pooling).await else { return };
        let gateway = HttpSink::start(HttpOptions::default()).await.unwrap();
        let setup = Setup::new()
            .http("gateway", &gateway.url())
            .set("database.pooling", word(pooling))
            .set("database.schema", "mail");
        let url = pooled.url.expose_secret();
        let (one, other) = tokio::join!(Process::start_at(url, &setup), Process::start_at(url, &setup));
        let ids = one.send_all(emails("ada", 20)).await;
        other.wait_for_all(&ids, Status::SuccessSent).await;
        assert_eq!(pooled.count("mail.outbox where status = 'SUCCESS_SENT'").await, 20);
        assert_eq!(gateway.inbox().counts().mails, 20);
        one.finish().await;
        other.finish().await;
    }
}

#[tokio::test]
async fn a_database_that_is_away_behind_a_pooler_is_not_waited_for_without_end() {
    let Some(pooled) = Pooled::new(Pooling::Transaction).await else { return };
    let settings = config::Database { acquire_timeout: Duration::from_millis(300), ..pooled.settings.clone() };
    let outbox = Outbox::connect(&settings, &pooled.url).await.unwrap();
    let ids = Draft::default().accept(&outbox, 1).await;
    let name = pooled.name().await;
    // The pooler answers, and lends nothing.
    pooled.pgbouncer.console(&format!("pause {name}"), "", &name).await;
    // More often than there are connections.
    for _ in 0..12 {
        let waited = timeout(Duration::from_secs(10), outbox.status(&ids, None)).await.unwrap();
        assert!(matches!(waited, Err(OutboxError::Unavailable(_))), "{waited:?}");
    }
    let connected = timeout(Duration::from_secs(10), Outbox::connect(&settings, &pooled.url)).await.unwrap();
    assert!(matches!(connected.map(drop), Err(OutboxError::Unavailable(_))));
    pooled.pgbouncer.console(&format!("resume {name}"), "", &name).await;
    let is_back = || async { outbox.status(&ids, None).await.is_ok_and(|statuses| statuses.len() == 1) };
    until("it is back", is_back).await;
    let open = "pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    until("nothing is left open", || async { pooled.count(open).await == 0 }).await;
    outbox.close().await;
}

/// The tables of days that are over.
const OVER: &str = "pg_class where relkind = 'r' and relname ~ '^(message|event)_[0-9]{8}$'
    and right(relname, 8) < to_char((now() - interval '5 days') at time zone 'utc', 'YYYYMMDD')";

#[tokio::test]
async fn what_is_over_goes_behind_a_pooler() {
    for pooling in BOTH {
        let Some(pooled) = Pooled::new(pooling).await else { return };
        let outbox = &pooled.outbox;
        outbox.clock().correct(-10 * time::Duration::DAY);
        assert_eq!(outbox.ensure_days(0).await.unwrap(), 2);
        outbox.measure_clock().await.unwrap();
        Draft { age: Duration::from_secs(10 * 86400), ..Draft::default() }.accept(outbox, 3).await;
        pooled.execute("update pending set give_up_at = now() + interval '1 day'").await;
        let claimed = claim_of(outbox, "default", 3).await;
        for one in &claimed {
            let settlement = settlement(one, 1, vec![attempt("primary", &[Class::Accepted])]);
            outbox.settle(&[settlement]).await.unwrap();
        }
        pooled.execute("update event set finished_at = now() - interval '10 days'").await;
        let kept = Draft::default().accept(outbox, 1).await;
        assert_eq!(pooled.count(OVER).await, 4);
        let retention = Retention { finished: Duration::from_secs(7 * 86400), batch: 2, ..Retention::default() };
        let mut removals = JoinSet::new();
        for _ in 0..3 {
            let (outbox, retention) = (pooled.another_process().await, retention.clone());
            removals.spawn(async move { Retirement::new(outbox, retention).turn().await.unwrap().finished });
        }
        assert_eq!(removals.join_all().await.into_iter().sum::<u64>(), 3);
        // Where they were in each other's way, the next one does it.
        Retirement::new(outbox.clone(), retention).turn().await.unwrap();
        assert_eq!(pooled.count(OVER).await, 0);
        assert_eq!(outbox.status(&kept, None).await.unwrap().len(), 1);
        assert_eq!(pooled.count("message").await, 1);
    }
}
