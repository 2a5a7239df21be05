//! Counts are exact, and cost the same however many messages there are and whoever holds what they were before.

use postrider::{
    delivery::Status,
    outbox::Outbox,
    sandbox::postgres::{Postgres, PostgresOptions},
};
use sqlx::Connection;

use super::Draft;
use crate::support::postgres::Database;

/// How many pages a count reads, as Postgres tells.
async fn pages_read(db: &Database) -> i64 {
    let explain = "explain (analyze, buffers, timing off, format json) select status, n from tally_sum()";
    let mut connection = db.sql.acquire().await.unwrap();
    // The first time in a session the tables' definitions are read too.
    sqlx::query(explain).execute(&mut *connection).await.unwrap();
    let plan: serde_json::Value = sqlx::query_scalar(explain).fetch_one(&mut *connection).await.unwrap();
    let plan = &plan[0]["Plan"];
    plan["Shared Hit Blocks"].as_i64().unwrap() + plan["Shared Read Blocks"].as_i64().unwrap()
}

/// Differences as those write them who change a status, each in a transaction of its own.
async fn write(db: &Database, count: usize) {
    db.execute(&format!(
        "do $$ begin
            for n in 1 .. {count} loop
                insert into tally (day, status, n)
                values (current_date, 'IN_PROCESS', -1), (current_date, 'SUCCESS_SENT', 1);
                commit;
            end loop;
        end $$"
    ))
    .await;
}

async fn count(outbox: &Outbox, status: Status) -> u64 {
    let counts = outbox.counts().await.unwrap();
    counts.iter().find(|(of, _)| *of == status).unwrap().1
}

#[tokio::test]
async fn counting_a_million_messages_reads_as_little_as_counting_a_few() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 10).await;
    let few = pages_read(&db).await;
    db.execute(
        "insert into pending (id, lane, status, due_at, give_up_at, hold)
        select
            (substr(message.id::text, 1, 14) || substr(gen_random_uuid()::text, 15))::uuid, pending.lane,
            'NOT_YET_SENT', now(), now() + interval '1 day', false
        from (select id from message limit 1) as message
        join pending on pending.id = message.id
        cross join generate_series(1, 1000000);
        insert into tally (day, status, n) values (current_date, 'NOT_YET_SENT', 1000000)",
    )
    .await;
    assert_eq!(count(&db.outbox, Status::NotYetSent).await, 1_000_010);
    Draft::default().accept(&db.outbox, 5).await;
    assert_eq!(count(&db.outbox, Status::NotYetSent).await, 1_000_015);
    let many = pages_read(&db).await;
    assert!(many <= few + 5, "{few} pages for ten, {many} for a million");
}

#[tokio::test]
async fn a_held_snapshot_does_not_make_counting_or_folding_slower_and_slower() {
    let server = Postgres::start(PostgresOptions { fsync: false, ..Default::default() }).await.unwrap();
    let db = Database::on(&server).await;
    db.execute("insert into tally (day, status, n) values (current_date, 'IN_PROCESS', 20000)").await;
    let mut reader = db.sql.acquire().await.unwrap();
    let mut open = reader.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read; select count(*) from tally")
        .execute(&mut *open)
        .await
        .unwrap();
    let mut pages = Vec::new();
    for round in 1..=5 {
        write(&db, 2000).await;
        assert!(db.outbox.fold_tally().await.unwrap() >= 4000);
        db.execute("vacuum tally").await;
        assert_eq!(count(&db.outbox, Status::SuccessSent).await, 2000 * round);
        pages.push(pages_read(&db).await);
    }
    assert!(db.count("tally").await < 10);
    let dead: i64 = db.scalar("select pg_relation_size('tally') / 8192").await;
    assert!(dead > 60, "nothing was held: the table has {dead} pages");
    assert!(pages.iter().all(|&read| read <= pages[0] + 3), "pages read after each round: {pages:?}");
    let seen: i64 = sqlx::query_scalar("select sum(n)::bigint from tally").fetch_one(&mut *open).await.unwrap();
    assert_eq!(seen, 20000, "what is held is still what it was");
}

#[tokio::test]
async fn what_is_still_being_written_is_counted_once_it_is() {
    let db = Database::new().await;
    let mut writer = db.sql.begin().await.unwrap();
    sqlx::query("insert into tally (day, status, n) values (current_date, 'EXPIRED', 7)")
        .execute(&mut *writer)
        .await
        .unwrap();
    for round in 1..=3 {
        write(&db, 1000).await;
        assert_eq!(db.outbox.fold_tally().await.unwrap(), 2000);
        assert_eq!(count(&db.outbox, Status::SuccessSent).await, 1000 * round);
    }
    writer.commit().await.unwrap();
    assert_eq!(count(&db.outbox, Status::Expired).await, 7);
    write(&db, 1000).await;
    assert_eq!(db.outbox.fold_tally().await.unwrap(), 2001);
    assert_eq!((count(&db.outbox, Status::Expired).await, count(&db.outbox, Status::SuccessSent).await), (7, 4000));
}

#[tokio::test]
async fn few_differences_are_left_as_they_are() {
    let db = Database::new().await;
    write(&db, 400).await;
    assert_eq!(db.outbox.fold_tally().await.unwrap(), 0);
    assert_eq!(db.count("tally").await, 800);
    write(&db, 200).await;
    assert_eq!(db.outbox.fold_tally().await.unwrap(), 1200);
}

#[tokio::test]
async fn counts_are_right_on_a_server_that_the_database_was_copied_to() {
    let db = Database::new().await;
    // Transactions of another server, which has seen more of them.
    db.execute(
        "insert into tally (day, status, n, xact, is_opening)
        values (current_date, 'SUCCESS_SENT', 5, '9000000000', true);
        insert into tally (day, status, n, xact) values (current_date, 'SUCCESS_SENT', 2, '9000000001')",
    )
    .await;
    Draft::default().accept(&db.outbox, 3).await;
    let told = || async { (count(&db.outbox, Status::SuccessSent).await, count(&db.outbox, Status::NotYetSent).await) };
    assert_eq!(told().await, (7, 3));
    assert!(db.outbox.fold_tally().await.unwrap() > 0);
    assert_eq!(told().await, (7, 3));
    assert_eq!(db.count("tally where xact > '8000000000'").await, 0);
    Draft::default().accept(&db.outbox, 3).await;
    assert_eq!(told().await, (7, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_fold_at_once_and_counts_stay_exact() {
    let db = Database::new().await;
    db.execute("insert into tally (day, status, n) values (current_date, 'IN_PROCESS', 3000)").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let outbox = db.another_process().await;
        tasks.spawn(async move {
            let mut folded = 0;
            while count(&outbox, Status::SuccessSent).await < 3000 {
                folded += outbox.fold_tally().await.unwrap();
                let counts = outbox.counts().await.unwrap();
                assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 3000);
            }
            folded
        });
    }
    for _ in 0..6 {
        write(&db, 500).await;
    }
    assert!(tasks.join_all().await.iter().sum::<u64>() > 1000);
    assert_eq!(count(&db.outbox, Status::InProcess).await, 0);
}
