//! How much a claim reads while somebody's long transaction holds back vacuum, and by which plan.

use std::{collections::BTreeMap, time::Duration};

use postrider::{
    config,
    delivery::Class,
    outbox::{ClaimRequest, Outbox, Rest, Settlement},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use time::OffsetDateTime;

use super::{Draft, HOUR, attempt, request, settlement};
use crate::support::postgres::Database;

/// How many of the pages of `pending` and of its indexes were read, and how many entries of the index of what is due,
/// those of dead rows included.
async fn read(db: &Database) -> (i64, i64) {
    db.sessions_ended().await;
    let pages = "select (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint
        from pg_statio_user_tables where relname = 'pending'";
    let entries = "select idx_tup_read::bigint from pg_stat_user_indexes where indexrelname = 'pending_due'";
    (db.scalar(pages).await, db.scalar(entries).await)
}

/// An outbox whose sessions tell what they read when it is closed.
async fn outbox(db: &Database) -> Outbox {
    let settings = config::Database { max_connections: 2, ..db.settings.clone() };
    Outbox::connect(&settings, &db.url).await.unwrap()
}

/// Rows that were due a millisecond apart, an hour ago, ordered by time.
async fn fill(db: &Database, count: u32) {
    Draft { wait: HOUR, ..Draft::default() }.accept(&db.outbox, 1).await;
    db.execute(&format!(
        "insert into pending (id, lane, status, due_at, give_up_at, hold)
        select
            (substr(message.id::text, 1, 15) || substr(gen_random_uuid()::text, 16))::uuid,
            lane.id, 'NOT_YET_SENT', now() - interval '1 hour' + n * interval '1 ms', now() + interval '1 day', false
        from message, lane, generate_series(1, {count}) as n"
    ))
    .await;
}

/// Claims and settles as a dispatcher does, each time from where the last claim had come to; gives that position.
async fn work(outbox: &Outbox, mut request: ClaimRequest, batches: usize) -> (usize, Option<OffsetDateTime>) {
    let (mut done, mut position) = (0, request.lanes[0].since);
    for _ in 0..batches {
        request.lanes[0].since = position.map(|position| position - Duration::from_secs(1));
        let claims = outbox.claim(&request).await.unwrap();
        let settlements: Vec<Settlement> = claims
            .messages
            .iter()
            .map(|one| settlement(one, 1, vec![attempt("primary", &[Class::Accepted])]))
            .collect();
        outbox.settle(&settlements).await.unwrap();
        done += settlements.len();
        position = match claims.lanes[0].rest {
            Rest::From(position) => Some(position),
            Rest::Nothing => Some(claims.at),
        };
    }
    (done, position)
}

#[tokio::test]
async fn a_claim_reads_no_more_while_dead_rows_cannot_be_removed() {
    let db = Database::new().await;
    db.execute("alter table pending set (autovacuum_enabled = false)").await;
    fill(&db, 30_000).await;
    let mut reader = db.sql.acquire().await.unwrap();
    let mut open = reader.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read").execute(&mut *open).await.unwrap();
    sqlx::query("select count(*) from outbox").execute(&mut *open).await.unwrap();

    let first = outbox(&db).await;
    let all = request(&first, 1000).await;
    let (done, position) = work(&first, all.clone(), 31).await;
    assert_eq!(done, 30_000);
    first.close().await;
    Draft::default().accept(&db.outbox, 300).await;
    db.outbox.close().await;

    let before = read(&db).await;
    let second = outbox(&db).await;
    let mut from_there = ClaimRequest { limit: 100, ..all.clone() };
    from_there.lanes[0].limit = 100;
    from_there.lanes[0].since = position;
    let mut claimed = 0;
    for _ in 0..3 {
        claimed += second.claim(&from_there).await.unwrap().messages.len();
    }
    second.close().await;
    let after = read(&db).await;
    assert_eq!(claimed, 300);
    // About nine for each message: its row is found, locked, written, and entered into two indexes. The entries are those
    // of the 300, and what was claimed before is read again as long as it lies less than a second back.
    let (pages, entries) = (after.0 - before.0, after.1 - before.1);
    assert!(pages < 300 * 20 && entries <= 3 * 300, "{pages} pages and {entries} entries for 300 messages");

    // What is spared: from the beginning, every dead row is looked at.
    let third = outbox(&db).await;
    assert!(third.claim(&all).await.unwrap().messages.is_empty());
    third.close().await;
    let spared = read(&db).await.1 - after.1;
    assert!(spared >= 30_000, "the dead rows were not there: {spared}");
    open.commit().await.unwrap();
}

/// The plan that a statement is given once for all, in a session as the outbox has it.
async fn plan(sql: &mut PgConnection, statement: &str, types: &str, values: &str) -> String {
    let prepare = format!("prepare statement ({types}) as {statement}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *sql).await.unwrap();
    let explain = format!("explain execute statement ({values})");
    let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *sql).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(0) + "\n").collect()
}

#[tokio::test]
async fn a_claim_goes_by_the_index_of_what_is_due_also_where_the_tables_were_empty() {
    let db = Database::new().await;
    db.execute("analyze").await;
    let mut sql = db.sql.acquire().await.unwrap();
    sqlx::raw_sql(
        "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off; set jit = off",
    )
    .execute(&mut *sql)
    .await
    .unwrap();
    let plan = plan(
        &mut sql,
        include_str!("../../src/outbox/claim.sql"),
        "int[], timestamptz[], int[], text[], bigint, interval, bigint[], boolean",
        "'{1}', '{1970-01-01}', '{100}', '{p}', 100, '30 s', '{7}', true",
    )
    .await;
    assert!(plan.contains("Index Scan using pending_due on pending"), "{plan}");
    assert!(plan.contains("Tid Scan on pending"), "{plan}");
    let scans = plan.lines().filter(|line| line.contains("Scan") && line.contains(" on pending"));
    let by_way: BTreeMap<bool, usize> = scans.fold(BTreeMap::new(), |mut ways, line| {
        *ways.entry(line.contains("Seq Scan") || line.contains("pending_pkey")).or_insert(0) += 1;
        ways
    });
    assert_eq!(by_way, BTreeMap::from([(false, 2)]), "{plan}");
}

#[tokio::test]
async fn what_is_committed_late_is_still_seen_and_what_the_position_hides_is_found_by_a_look() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    let all = request(&db.outbox, 10).await;
    let (done, position) = work(&db.outbox, all.clone(), 2).await;
    assert_eq!(done, 1);
    let position = position.unwrap();
    let from_there = {
        let mut request = all.clone();
        request.lanes[0].since = Some(position - Duration::from_secs(1));
        request
    };
    let due_before = |time: Duration| {
        let age = db.outbox.clock().now() - position + time;
        Draft { age: age.try_into().unwrap(), ..Draft::default() }
    };
    let late = due_before(Duration::from_millis(800)).accept(&db.outbox, 1).await;
    let claimed = db.outbox.claim(&from_there).await.unwrap().messages;
    assert_eq!(claimed.iter().map(|one| one.lease.id).collect::<Vec<_>>(), late, "its commit took its time");

    let hidden = due_before(Duration::from_secs(60)).accept(&db.outbox, 1).await;
    assert!(db.outbox.claim(&from_there).await.unwrap().messages.is_empty());
    let earliest = db.outbox.look().await.unwrap()[0].earliest.unwrap();
    assert!(earliest < position, "it lies behind the position");
    let mut back = all;
    back.lanes[0].since = Some(earliest);
    let claimed = db.outbox.claim(&back).await.unwrap().messages;
    assert_eq!(claimed.iter().map(|one| one.lease.id).collect::<Vec<_>>(), hidden);
}
