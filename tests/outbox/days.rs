//! The tables of the days are made ahead, by anybody, while others read.

use postrider::{
    config,
    outbox::{DaysMade, Outbox},
};
use sqlx::Connection;
use tokio::task::JoinSet;

use super::Draft;
use crate::support::postgres::Database;

const DAYS: &str = "pg_inherits where inhparent in ('message'::regclass, 'event'::regclass)";

#[tokio::test]
async fn days_are_made_once() {
    let db = Database::new().await;
    // The template has them from yesterday to the day after tomorrow.
    assert_eq!(db.outbox.ensure_days(2).await.unwrap(), 0);
    assert_eq!(db.outbox.ensure_days(5).await.unwrap(), 3);
    assert_eq!(db.outbox.ensure_days(5).await.unwrap(), 0);
    assert_eq!(db.count(DAYS).await, 2 * 7);
    assert_eq!(db.count("pg_class where relkind = 'r' and relispartition").await, 2 * 7);
}

#[tokio::test]
async fn days_ahead_are_counted_up_to_the_first_that_is_missing() {
    let db = Database::new().await;
    let made = || async { db.outbox.days_made().await.unwrap() };
    assert_eq!(made().await, DaysMade { is_enough: true, ahead: 2 });
    db.outbox.ensure_days(6).await.unwrap();
    assert_eq!(made().await.ahead, 6);
    let third: String = db.scalar("select to_char((now() at time zone 'UTC')::date + 3, 'YYYYMMDD')").await;
    db.execute(&format!("drop table event_{third}")).await;
    assert_eq!(made().await, DaysMade { is_enough: true, ahead: 2 });
    db.outbox.clock().correct(time::Duration::days(3));
    assert_eq!(made().await, DaysMade { is_enough: false, ahead: 3 }, "today is missing");
    db.execute(&format!("alter table message detach partition message_{third}; drop table message_{third}")).await;
    db.outbox.ensure_days(0).await.unwrap();
    assert_eq!(made().await, DaysMade { is_enough: true, ahead: 3 });
    // At the end of the last day.
    db.outbox.clock().correct(time::Duration::days(6));
    let day_ends = db.outbox.clock().now().replace_time(time::macros::time!(23:30));
    db.outbox.clock().correct(day_ends - time::OffsetDateTime::now_utc());
    assert_eq!(made().await, DaysMade { is_enough: false, ahead: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_make_them_at_once() {
    let db = Database::new().await;
    let mut processes = JoinSet::new();
    for _ in 0..6 {
        let outbox = db.another_process().await;
        processes.spawn(async move { outbox.ensure_days(20).await.unwrap() });
    }
    assert_eq!(processes.join_all().await.iter().sum::<usize>(), 18, "each is made by one of them");
    assert_eq!(db.count(DAYS).await, 2 * 22);
}

#[tokio::test]
async fn a_reader_with_a_long_transaction_is_not_waited_for() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    let mut reader = db.sql.acquire().await.unwrap();
    let mut open = reader.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read").execute(&mut *open).await.unwrap();
    sqlx::query("select count(*) from outbox").execute(&mut *open).await.unwrap();
    assert_eq!(db.outbox.ensure_days(4).await.unwrap(), 2);
    Draft::default().accept(&db.outbox, 1).await;
    open.commit().await.unwrap();
}

#[tokio::test]
async fn somebody_who_holds_the_table_for_a_while_is_waited_for_without_stopping_others() {
    let db = Database::new().await;
    let mut other = db.sql.acquire().await.unwrap();
    let mut open = other.begin().await.unwrap();
    // What a vacuum or another change of the table takes: reads and writes go on.
    sqlx::query("lock table message in share update exclusive mode").execute(&mut *open).await.unwrap();
    let outbox = db.outbox.clone();
    let making = tokio::spawn(async move { outbox.ensure_days(3).await });
    // It has come to wait.
    while db.count("pg_locks where not granted").await == 0 {
        Draft::default().accept(&db.outbox, 1).await;
    }
    Draft::default().accept(&db.outbox, 1).await;
    open.commit().await.unwrap();
    assert_eq!(making.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn a_message_without_a_day_is_refused_and_the_others_are_not() {
    let db = Database::new().await;
    let lost = Draft { age: 5 * super::DAY, ..Draft::default() }.new_message(&db.outbox);
    let error = db.outbox.accept(&[lost]).await.unwrap_err();
    assert!(error.to_string().contains("no partition"), "{error}");
    Draft::default().accept(&db.outbox, 1).await;
}

#[tokio::test]
async fn a_days_table_has_the_settings_it_needs() {
    let db = Database::new().await;
    let options: Vec<String> = db
        .scalar(
            "select array_agg(distinct array_to_string(reloptions, ' ')) from pg_class
            where relkind = 'r' and relname ~ '^message_2'",
        )
        .await;
    assert_eq!(options, ["autovacuum_vacuum_insert_threshold=-1 toast_tuple_target=8160"]);
    let lz4 = "pg_attribute where attname = 'content' and attcompression = 'l' and attrelid in
        (select oid from pg_class where relname ~ '^message_2')";
    assert_eq!(db.count(lz4).await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_migrate_at_once_and_again_into_a_schema_of_any_name() {
    let db = Database::new().await;
    let settings = config::Database { schema: "Post \"rider\"".into(), ..db.settings.clone() };
    let mut processes = JoinSet::new();
    for _ in 0..4 {
        let (settings, url) = (settings.clone(), db.url.clone());
        processes.spawn(async move {
            let outbox = Outbox::connect(&settings, &url).await.unwrap();
            outbox.migrate().await.unwrap();
            outbox.migrate().await.unwrap();
            outbox.ensure_days(0).await.unwrap();
            Draft::default().accept(&outbox, 1).await;
        });
    }
    processes.join_all().await;
    assert_eq!(db.count(r#""Post ""rider""".outbox"#).await, 4);
    assert_eq!(db.count("outbox").await, 0);
}
