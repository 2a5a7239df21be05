//! The statements go on using their indexes, also when the tables were empty once.

use std::collections::BTreeMap;

use postrider::{
    config,
    delivery::{Class, Status},
    outbox::{Filter, Outbox, Retry, Settlement},
};

use super::{Draft, attempt, claim, settlement};
use crate::support::postgres::Database;

/// How many rows of each table were read: from end to end, and by an index.
async fn rows_read(db: &Database) -> BTreeMap<String, (i64, i64)> {
    db.sessions_ended().await;
    let sql = "select table_, max(scanned)::bigint, sum(fetched)::bigint
        from (
            select substring(relname::text from '^[a-z]+') as table_, seq_tup_read as scanned, idx_tup_fetch as fetched
            from pg_stat_user_tables
        ) as tables
        where table_ in ('pending', 'message', 'event')
        group by table_";
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(sql).fetch_all(&db.sql).await.unwrap();
    rows.into_iter().map(|(table, scanned, fetched)| (table, (scanned, fetched))).collect()
}

/// A backlog and a history, without what nobody will look at.
async fn fill(db: &Database) {
    let like_it = "(substr(message.id::text, 1, 15) || substr(gen_random_uuid()::text, 16))::uuid";
    db.execute(&format!(
        "insert into pending (id, lane, status, due_at, give_up_at, hold)
        select {like_it}, lane.id, 'NOT_YET_SENT', now(), now() + interval '1 day', false
        from message, lane, generate_series(1, 100000);
        insert into event (message_id, kind, at) select {like_it}, 'RETRIED', now()
        from message, generate_series(1, 20000);
        insert into message (
            id, client, accepted_at, chain, priority, unknown_outcome, sender, recipients, tags, correlation_id,
            traceparent, tracestate, size_bytes, content_version, content
        )
        select
            {like_it}, client, accepted_at, chain, priority, unknown_outcome, sender, recipients, tags, correlation_id,
            traceparent, tracestate, size_bytes, content_version, content
        from message, generate_series(1, 20000)"
    ))
    .await;
}

async fn process(outbox: &Outbox) {
    let claimed = claim(outbox, 100).await;
    if std::env::var("ONLY").is_ok() {
        return;
    }
    assert_eq!(claimed.len(), 100);
    let ids: Vec<_> = claimed.iter().map(|one| one.lease.id).collect();
    assert_eq!(outbox.contents(&ids).await.unwrap().len(), 100);
    let settlements: Vec<Settlement> =
        claimed.iter().map(|one| settlement(one, 1, vec![attempt("primary", &[Class::Accepted])])).collect();
    assert_eq!(outbox.cancel(&ids, None).await.unwrap(), [Some(Status::InProcess); 100]);
    outbox.settle(&settlements).await.unwrap();
    assert_eq!(outbox.status(&ids, None).await.unwrap().len(), 100);
    let unseen: Vec<_> = ids.iter().map(|id| (*id, None)).collect();
    let seen = outbox.changes(&unseen).await.unwrap();
    let seen: Vec<_> = seen.into_iter().map(|told| (told.id, Some(told.version))).collect();
    assert_eq!((seen.len(), outbox.changes(&seen).await.unwrap().len()), (100, 0));
}

#[tokio::test]
async fn plans_made_while_the_tables_were_empty_do_no_harm() {
    let db = Database::new().await;
    db.execute("analyze; alter table pending set (autovacuum_enabled = false)").await;
    Draft { wait: super::HOUR, ..Draft::default() }.accept(&db.outbox, 1).await;
    let nobodys = Draft::default().new_message(&db.outbox).message.id;
    let settings = config::Database { max_connections: 1, ..db.settings.clone() };
    let outbox = Outbox::connect(&settings, &db.url).await.unwrap();
    // Postgres thinks of keeping a plan for all times after it has made it five times.
    for _ in 0..7 {
        assert!(claim(&outbox, 100).await.is_empty());
        outbox.contents(&[]).await.unwrap();
        outbox.status(&[], None).await.unwrap();
        outbox.cancel(&[nobodys], None).await.unwrap();
    }
    fill(&db).await;
    // Due before the backlog.
    Draft { age: super::HOUR, ..Draft::default() }.accept(&outbox, 800).await;
    for _ in 0..8 {
        process(&outbox).await;
    }
    outbox.close().await;
    db.outbox.close().await;

    let read = rows_read(&db).await;
    for (table, (scanned, fetched)) in &read {
        // The few are from when there was nothing else.
        assert!(*scanned < 100, "{scanned} rows of {table} were read by reading it from end to end");
        assert!(*fetched <= 20 * 800, "{fetched} rows of {table} were read for 800 messages");
    }
}

/// What an operator asks about first: those that wait for a person.
fn failed() -> Filter {
    Filter { statuses: Status::ALL.into_iter().filter(|status| status.is_failed()).collect(), ..Filter::default() }
}

#[tokio::test]
async fn an_operator_reads_neither_a_backlog_nor_a_history() {
    let db = Database::new().await;
    db.execute("analyze; alter table pending set (autovacuum_enabled = false)").await;
    let ids = Draft::default().accept(&db.outbox, 1).await;
    let claimed = claim(&db.outbox, 1).await;
    let refused = settlement(&claimed[0], 1, vec![attempt("primary", &[Class::MessageRejected])]);
    db.outbox.settle(&[refused]).await.unwrap();
    db.outbox.close().await;
    fill(&db).await;
    db.execute(
        "insert into event (message_id, kind, at, status, finished_at, rounds, attempts)
        select message.id, 'CANCELED', now(), 'CANCELED', now(), 0, 0
        from message
        left join pending on pending.id = message.id
        where pending.id is null;
        insert into tally (day, status, n)
        select day_of(id), 'NOT_YET_SENT', 100000
        from pending
        where failed_at is not null",
    )
    .await;
    // Whoever is there has not told yet what he read.
    let before = rows_read(&db).await;
    let settings = config::Database { max_connections: 1, ..db.settings.clone() };
    let outbox = Outbox::connect(&settings, &db.url).await.unwrap();

    let listed = outbox.list(&failed(), None, 50).await.unwrap();
    assert_eq!(listed.messages.iter().map(|message| message.id).collect::<Vec<_>>(), ids);
    assert_eq!(listed.next, None);
    assert_eq!(outbox.list(&Filter::default(), None, 50).await.unwrap().messages.len(), 50);
    let waiting = Filter { statuses: vec![Status::NotYetSent], ..Filter::default() };
    let nobodys = Filter { correlation_id: Some("nobody's".into()), ..Filter::default() };
    for filter in [waiting, nobodys] {
        let page = outbox.list(&filter, None, 50).await.unwrap();
        assert!(page.messages.is_empty(), "no message is there for the backlog");
        assert!(page.next.is_some() || filter.correlation_id.is_some(), "a page is rather short than slow");
    }
    let retry = Retry { include_outcome_unknown: false, longest_wait: super::HOUR, dry_run: false };
    let retried = outbox.retry(&ids, retry).await.unwrap();
    assert_eq!(retried.iter().map(|(_, count)| count).sum::<u64>(), 1);
    outbox.close().await;

    let after = rows_read(&db).await;
    for (table, (scanned, fetched)) in &after {
        let (scanned, fetched) = (scanned - before[table].0, fetched - before[table].1);
        assert_eq!(scanned, 0, "rows of {table} were read by reading it from end to end");
        // What the last two pages examine at most, and a little.
        assert!(fetched <= 2 * 20_000 + 1_000, "{fetched} rows of {table} were read");
    }
}
