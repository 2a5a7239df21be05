//! A database that goes away and comes back, while four processes send.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use postrider::sandbox::postgres::{Mode, Postgres, PostgresOptions};
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, interval, sleep, sleep_until};

use super::{
    Form,
    fleet::{Fleet, Ground},
    ledger::Ledger,
    load::Load,
};
use crate::support::slow_provider::Protocol;

/// Does that to the database under load. It gives how many mails were with the provider at the time; there has to be one.
async fn under_load(what: &str, form: Form, disturb: impl AsyncFnOnce(&Postgres, &Ground) -> usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let postgres = postgres(folder.path()).await;
    let fleet = Fleet::start(&postgres.url("postrider"), Protocol::Http).await;
    let load = Load::start(&fleet.ground);
    let under_way = disturb(&postgres, &fleet.ground).await;
    let ledger = Ledger::close(&fleet.ground, load.stop().await).await;

    let sums = ledger.check();
    form.report(what, &format_args!("{under_way} mails under way; {sums}"));
    assert!(under_way > 0, "no mail was with the provider at the time: this proves nothing");
    let (ground, arrived) = (fleet.ground.clone(), fleet.ground.provider.arrivals().len());
    fleet.finish().await;
    assert_eq!(ground.provider.arrivals().len(), arrived, "something was sent after all was finished");
}

/// A server that asks nobody for a password: with each connection made anew so often, a program that is not optimised
/// would do nothing but compute its proof.
async fn postgres(folder: &Path) -> Postgres {
    let access = folder.join("access.conf");
    fs::write(&access, "host all all 127.0.0.1/32 trust\n").expect("the folder is ours");
    // Postgres may run as another account, which has to pass.
    fs::set_permissions(folder, Permissions::from_mode(0o711)).expect("the folder is ours");
    let access = ("hba_file".to_owned(), access.to_str().expect("a path of letters").to_owned());
    let options = PostgresOptions { fsync: false, settings: vec![access], ..PostgresOptions::default() };
    let postgres = Postgres::start(options).await.expect("a Postgres");
    postgres.create_database("postrider").await.expect("a database");
    postgres
}

/// Stops the server as a crash does. Gives how many mails are with the provider then: their answers come afterwards.
async fn crash(postgres: &Postgres, ground: &Ground) -> usize {
    ground.provider.takes_mail_of(|_| true).await;
    ground.provider.hold_answers();
    postgres.stop(Mode::Immediate).await.expect("it stops");
    let under_way = ground.provider.unanswered(|_| true).len();
    ground.provider.release_answers();
    under_way
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_though_the_database_crashes_every_few_seconds() {
    let form = Form::chosen();
    let (every, times) = form.of((Duration::from_millis(1_500), 2), (Duration::from_secs(5), 13));
    under_load("database crashes", form, async |postgres, ground| {
        let (began, mut under_way) = (Instant::now(), 0);
        for nth in 1..=times {
            sleep_until(began + every * nth).await;
            under_way += crash(postgres, ground).await;
            postgres.restart(Mode::Fast).await.expect("it starts again");
        }
        under_way
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_though_the_database_is_away_for_longer_than_a_lease() {
    let form = Form::chosen();
    under_load("long outages", form, async |postgres, ground| {
        let mut under_way = 0;
        for _ in 0..form.of(1, 8) {
            sleep(Duration::from_secs(form.of(1, 4))).await;
            under_way += crash(postgres, ground).await;
            // The lease lasts two seconds.
            sleep(Duration::from_secs(form.of(3, 5))).await;
            postgres.restart(Mode::Fast).await.expect("it starts again");
        }
        under_way
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_though_every_connection_is_closed_each_second() {
    let form = Form::chosen();
    under_load("connections closed", form, async |postgres, ground| {
        let mut admin = PgConnection::connect(&postgres.url("postgres")).await.expect("the server is there");
        let mut seconds = interval(Duration::from_secs(1));
        seconds.tick().await;
        let mut under_way = 0;
        for _ in 0..form.of(3, 60) {
            seconds.tick().await;
            let closed: i64 = sqlx::query_scalar(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = 'postrider'",
            )
            .fetch_one(&mut admin)
            .await
            .expect("the statement is right");
            assert!(closed > 0, "there was no connection to close");
            under_way += ground.provider.unanswered(|_| true).len();
        }
        under_way
    })
    .await;
}
