//! The statements go on using their indexes, also when the tables were empty once.

use std::collections::BTreeMap;

use postrider::{
    delivery::Class,
    outbox::{Outbox, Settlement},
};

use super::{Draft, attempt, request, settlement};
use crate::support::postgres::Database;

/// How many rows of each table were read by reading it from end to end.
async fn rows_scanned(db: &Database) -> BTreeMap<String, i64> {
    // Sessions tell what they did when they end.
    while db.count("pg_stat_activity where application_name = 'postrider' and datname = current_database()").await > 0 {
        tokio::task::yield_now().await;
    }
    let sql = "select relname::text, seq_tup_read from pg_stat_user_tables
        where relname ~ '^(pending|message|event|idempotency)' and seq_tup_read > 0";
    sqlx::query_as(sql).fetch_all(&db.sql).await.unwrap().into_iter().collect()
}

async fn process(outbox: &Outbox) {
    let claimed = outbox.claim(&request(100)).await.unwrap();
    assert_eq!(claimed.len(), 100);
    let ids: Vec<_> = claimed.iter().map(|one| one.lease.id).collect();
    assert_eq!(outbox.contents(&ids).await.unwrap().len(), 100);
    let settlements: Vec<Settlement> =
        claimed.iter().map(|one| settlement(one, 1, vec![attempt("primary", &[Class::Accepted])])).collect();
    outbox.settle(&settlements).await.unwrap();
    assert_eq!(outbox.status(&ids, None).await.unwrap().len(), 100);
}

#[tokio::test]
async fn plans_made_while_the_tables_were_empty_do_no_harm() {
    let db = Database::new().await;
    db.execute("analyze; alter table pending set (autovacuum_enabled = false)").await;
    let outbox = db.another_process().await;
    // The statements are known to the session, and so would be a plan kept for all times, before there is anything.
    for _ in 0..7 {
        outbox.claim(&request(100)).await.unwrap();
        outbox.settle(&[]).await.unwrap();
    }
    for _ in 0..4 {
        Draft::default().accept(&outbox, 500).await;
    }
    // Behind them a backlog; that it has no content nobody will notice.
    db.execute(
        "insert into pending (id, lane, status, due_at, give_up_at, hold)
        select gen_random_uuid(), min(lane.id), 'NOT_YET_SENT', now(), now() + interval '1 day', false
        from lane, generate_series(1, 200000) as n
        group by n",
    )
    .await;
    for _ in 0..10 {
        process(&outbox).await;
    }
    outbox.close().await;
    db.outbox.close().await;
    let before = rows_scanned(&db).await;

    let outbox = db.another_process().await;
    for _ in 0..8 {
        process(&outbox).await;
    }
    outbox.close().await;
    let after = rows_scanned(&db).await;
    assert_eq!(after, before, "nothing was read from end to end");
    assert!(
        db.scalar::<i64>("select idx_scan from pg_stat_user_indexes where indexrelname = 'pending_due'").await >= 16
    );
}
