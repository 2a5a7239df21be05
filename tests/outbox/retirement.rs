//! A day goes at once, beside everybody who works with it.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use postrider::{
    config::{self, Pooling},
    delivery::{Class, Status},
    message::MessageId,
    outbox::{Accepted, Outbox, Removed, Retirement, Settlement},
};
use sqlx::Connection;
use tokio::{task::JoinSet, time::timeout};

use super::{
    DAY, Draft, attempt, claim, let_pauses_pass,
    retention::{days, make_day, retention, turn},
    settlement,
};
use crate::support::{
    caller::{PATIENCE, until},
    postgres::Database,
};

/// How old the messages are of the day that goes.
const AGE: u32 = 9;

/// What was finished of the old day was finished long ago.
const TIME_PASSES: &str = "update event set finished_at = finished_at - interval '9 days'
    where finished_at > now() - interval '1 day' and day_of(message_id) < current_date - 7";

/// What failed is due again, before all that was accepted since.
const AGAIN: &str = "update pending set due_at = now() - interval '1 day', rounds = 0
    where status = 'REQUIRED_RESEND' and due_at > now()";

/// Accepts messages of the old day, each with a key, that may wait until tomorrow.
async fn accept_old(outbox: &Outbox, keys: &str, count: usize) -> Vec<MessageId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let mut new = Draft { age: AGE * DAY, ..Draft::keyed(format!("{keys}-{n}"), "r") }.new_message(outbox);
        new.give_up_at = outbox.clock().now() + DAY;
        ids.push(new.message.id);
        assert_eq!(outbox.accept(&[new]).await.unwrap(), [Accepted::New]);
    }
    ids
}

/// Claims so many and sends them.
async fn send(outbox: &Outbox, limit: usize) -> Vec<MessageId> {
    let claimed = claim(outbox, limit).await;
    let ids: Vec<MessageId> = claimed.iter().map(|one| one.lease.id).collect();
    assert!(outbox.contents(&ids).await.unwrap().iter().all(|(_, content)| content.is_ok()));
    let settlements: Vec<Settlement> =
        claimed.iter().map(|one| settlement(one, 1, vec![attempt("primary", &[Class::Accepted])])).collect();
    outbox.settle(&settlements).await.unwrap();
    ids
}

/// A day with so many sent long ago, and so many that wait.
async fn old_day(db: &Database, sent: usize, waiting: usize) -> (Vec<MessageId>, Vec<MessageId>) {
    make_day(db, u64::from(AGE)).await;
    let gone = accept_old(&db.outbox, "gone", sent).await;
    assert_eq!(send(&db.outbox, sent).await.len(), sent);
    db.execute("update event set finished_at = finished_at - interval '9 days'").await;
    let waits = accept_old(&db.outbox, "waits", waiting).await;
    (gone, waits)
}

/// Messages of an old day and of today, worked on by tasks of their own until they are told to stop.
#[derive(Clone)]
struct Traffic {
    db: Arc<Database>,
    /// Those of the old day.
    old: Arc<Mutex<BTreeSet<MessageId>>>,
    sent: Arc<Mutex<Vec<MessageId>>>,
    stop: Arc<AtomicBool>,
}

impl Traffic {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    /// Accepts for today and, for a while, late ones for the old day.
    async fn accept(self) {
        for round in 0.. {
            if !self.goes_on() {
                return;
            }
            Draft::default().accept(&self.db.outbox, 5).await;
            if round < 100 {
                let late = accept_old(&self.db.outbox, &format!("late-{round}"), 1).await;
                self.old.lock().unwrap().extend(late);
            }
        }
    }

    /// Sends, and fails one in four for a while.
    async fn send(self) {
        while self.goes_on() {
            let claimed = claim(&self.db.outbox, 7).await;
            let class = |nth: usize| if nth % 4 == 3 { Class::Unavailable } else { Class::Accepted };
            let settlements: Vec<Settlement> = claimed
                .iter()
                .enumerate()
                .map(|(nth, one)| settlement(one, 1, vec![attempt("primary", &[class(nth)])]))
                .collect();
            self.db.outbox.settle(&settlements).await.unwrap();
            let sent = claimed.iter().enumerate().filter(|(nth, _)| class(*nth) == Class::Accepted);
            self.sent.lock().unwrap().extend(sent.map(|(_, one)| one.lease.id));
            self.db.execute(AGAIN).await;
        }
    }

    /// Makes time pass for what was sent.
    async fn age(self) {
        while self.goes_on() {
            self.db.execute(TIME_PASSES).await;
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_are_emptied_beside_those_who_accept_claim_and_settle_and_nothing_is_lost() {
    let db = Arc::new(Database::new().await);
    make_day(&db, u64::from(AGE)).await;
    let old = Mutex::new(accept_old(&db.outbox, "old", 200).await.into_iter().collect());
    let traffic = Traffic { db: db.clone(), old: Arc::new(old), sent: Arc::default(), stop: Arc::default() };
    let mut tasks = JoinSet::new();
    tasks.spawn(traffic.clone().accept());
    tasks.spawn(traffic.clone().send());
    tasks.spawn(traffic.clone().send());
    tasks.spawn(traffic.clone().age());

    let (mut removed, mut turns) = (0, 0);
    let all_sent = || {
        let (old, sent) = (traffic.old.lock().unwrap(), traffic.sent.lock().unwrap());
        old.len() == 300 && sent.iter().filter(|id| old.contains(id)).count() == 300
    };
    let going = async {
        // All are copied each time, so that the day is emptied again and again.
        let settings = postrider::config::Retention { batch: 1000, ..retention() };
        while !all_sent() {
            let before = removed;
            removed += Retirement::new(db.outbox.clone(), settings.clone()).turn().await.unwrap().finished;
            turns += u32::from(removed > before);
            db.tally_is_exact().await;
        }
    };
    timeout(PATIENCE, going).await.expect("each is sent in the end");
    traffic.stop.store(true, Ordering::SeqCst);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }

    assert!(turns > 3, "the day was emptied {turns} times, which proves little");
    let sent = traffic.sent.lock().unwrap().clone();
    assert_eq!(sent.len(), sent.iter().collect::<BTreeSet<_>>().len(), "none was sent twice");
    let without = "pending where not exists (select from message where message.id = pending.id)";
    assert_eq!(db.count(without).await, 0);
    db.execute(TIME_PASSES).await;
    removed += turn(&db.outbox).await.finished;
    assert_eq!(removed, 300);
    assert_eq!(db.count("idempotency").await, 0);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn who_reads_the_day_puts_it_off_and_nobody_else_waits() {
    let db = Database::new().await;
    let (gone, waits) = old_day(&db, 5, 2).await;
    let mut reader = db.sql.acquire().await.unwrap();
    let mut open = reader.begin().await.unwrap();
    sqlx::query("select count(*) from outbox").execute(&mut *open).await.unwrap();

    // Whoever does not ask for that day must never wait, not for a moment.
    db.execute("do $$ begin execute format('alter database %I set lock_timeout = 1', current_database()); end $$")
        .await;
    let hasty = db.another_process().await;
    let outbox = db.outbox.clone();
    let mut retirement = Retirement::new(outbox, retention());
    let turns = tokio::spawn(async move {
        let removed = [retirement.turn().await.unwrap(), retirement.turn().await.unwrap()];
        (retirement, removed)
    });
    while !turns.is_finished() {
        let ids = Draft::default().accept(&hasty, 3).await;
        assert_eq!(hasty.status(&ids, None).await.unwrap().len(), 3);
        hasty.counts().await.unwrap();
    }
    let (mut retirement, removed) = turns.await.unwrap();
    assert_eq!(removed, [Removed { days_held_up: 1, ..Removed::default() }; 2]);
    assert_eq!(db.outbox.status(&gone, None).await.unwrap().len(), 5);

    open.commit().await.unwrap();
    assert_eq!(retirement.turn().await.unwrap(), Removed { finished: 5, ..Removed::default() });
    assert!(db.outbox.status(&gone, None).await.unwrap().is_empty());
    assert_eq!(db.outbox.status(&waits, None).await.unwrap().len(), 2);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn who_only_holds_a_snapshot_puts_nothing_off() {
    let db = Database::new().await;
    let (_, waits) = old_day(&db, 5, 2).await;
    let mut reader = db.sql.acquire().await.unwrap();
    let mut open = reader.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read; select count(*) from lane")
        .execute(&mut *open)
        .await
        .unwrap();
    assert_eq!(turn(&db.outbox).await.finished, 5);
    assert_eq!(db.outbox.status(&waits, None).await.unwrap().len(), 2);
    db.tally_is_exact().await;
    let_pauses_pass(&db).await;
    assert_eq!(send(&db.outbox, 10).await.len(), 2);
    db.tally_is_exact().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_empty_a_day_once() {
    let db = Database::new().await;
    let before = days(&db).await;
    old_day(&db, 60, 0).await;
    let mut processes = JoinSet::new();
    for _ in 0..4 {
        let outbox = db.another_process().await;
        processes.spawn(async move { turn(&outbox).await.finished });
    }
    assert_eq!(processes.join_all().await.iter().sum::<u64>(), 60);
    turn(&db.outbox).await;
    assert_eq!((db.count("message").await, db.count("event").await, db.count("idempotency").await), (0, 0, 0));
    assert_eq!(days(&db).await, before);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn keys_that_a_killed_process_left_are_trimmed_by_the_next() {
    let db = Database::new().await;
    let (gone, waits) = old_day(&db, 5, 3).await;
    let killed = db.another_process().await;
    let mut hold = db.sql.begin().await.unwrap();
    sqlx::query("select from idempotency for update").execute(&mut *hold).await.unwrap();
    let trimming = tokio::spawn(async move { turn(&killed).await });
    // It has emptied the day, and has come to wait for the keys.
    let waiting = "pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    until("it waits for the keys", || async { db.count(waiting).await > 0 }).await;
    assert!(db.outbox.status(&gone, None).await.unwrap().is_empty());
    trimming.abort();
    db.execute(&format!("select pg_terminate_backend(pid) from {waiting}")).await;
    until("it has gone", || async { db.count(waiting).await == 0 }).await;
    hold.rollback().await.unwrap();
    assert_eq!(db.count("idempotency").await, 8, "none goes while its message is there, or before it");

    assert_eq!(turn(&db.outbox).await, Removed::default());
    let ids: Vec<uuid::Uuid> =
        sqlx::query_scalar("select message_id from idempotency order by message_id").fetch_all(&db.sql).await.unwrap();
    let mut expected: Vec<uuid::Uuid> = waits.iter().map(|id| id.as_uuid()).collect();
    expected.sort();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn an_outcome_that_comes_after_its_day_has_gone_is_gone_too() {
    let db = Database::new().await;
    make_day(&db, u64::from(AGE)).await;
    let id = accept_old(&db.outbox, "k", 1).await[0];
    let claimed = claim(&db.outbox, 1).await.remove(0);
    let late = settlement(&claimed, 1, vec![attempt("primary", &[Class::Accepted])]);
    db.outbox.settle(std::slice::from_ref(&late)).await.unwrap();
    db.execute("update event set finished_at = finished_at - interval '9 days'").await;
    assert_eq!(turn(&db.outbox).await.finished, 1);
    let settled = db.outbox.settle(&[late]).await;
    // Its day may have no table any more.
    assert!(settled.as_ref().is_ok_and(|settled| settled[0] == postrider::outbox::Settled::Gone), "{settled:?}");
    assert!(db.outbox.status(&[id], None).await.unwrap().is_empty());
    let counts = db.outbox.counts().await.unwrap();
    assert!(counts.iter().all(|(_, count)| *count == 0), "{counts:?}");
    assert_eq!(counts.len(), Status::ALL.len());
}

#[tokio::test]
async fn behind_a_pooler_days_are_emptied_counted_and_dropped_as_well() {
    let db = Database::new().await;
    let before = days(&db).await;
    let (gone, waits) = old_day(&db, 5, 2).await;
    let settings = config::Database { pooling: Pooling::Transaction, ..db.settings.clone() };
    let outbox = Outbox::connect(&settings, &db.url).await.unwrap();
    assert_eq!(turn(&outbox).await.finished, 5);
    assert_eq!(outbox.status(&[gone, waits].concat(), None).await.unwrap().len(), 2);
    assert_eq!(days(&db).await, (before.0 + 1, before.1 + 1), "the empty one of the two has gone");
    assert_eq!(db.count("idempotency").await, 2);

    let mut reader = db.sql.begin().await.unwrap();
    sqlx::query("select count(*) from outbox").execute(&mut *reader).await.unwrap();
    send(&outbox, 2).await;
    db.execute(TIME_PASSES).await;
    assert_eq!(turn(&outbox).await, Removed { days_held_up: 1, ..Removed::default() });
    reader.commit().await.unwrap();
    assert_eq!(turn(&outbox).await.finished, 2);
    assert_eq!(days(&db).await, before);
    db.execute(
        "insert into tally (day, status, n) select current_date, 'EXPIRED', n from generate_series(1, 1000) as n",
    )
    .await;
    assert!(outbox.fold_tally().await.unwrap() >= 1000);
    assert_eq!(outbox.counts().await.unwrap()[6], (Status::Expired, 500_500));
    assert!(outbox.days_made().await.unwrap().is_enough);
}

#[tokio::test]
async fn emptying_a_day_reads_only_what_stays() {
    let db = Database::new().await;
    let (_, waits) = old_day(&db, 1, 10).await;
    // Whatever the planner knows of the day: nothing, or what was true before it was filled.
    db.execute("analyze").await;
    let like_it = "(substr(message.id::text, 1, 14) || substr(gen_random_uuid()::text, 15))::uuid";
    db.execute(&format!(
        "create temporary table more as
        select {like_it} as id from (select id from message order by id limit 1) as message, generate_series(1, 20000);
        insert into message (
            id, client, accepted_at, chain, priority, unknown_outcome, sender, recipients, tags, correlation_id,
            traceparent, tracestate, size_bytes, content_version, content
        )
        select
            more.id, client, accepted_at, chain, priority, unknown_outcome, sender, recipients, tags, correlation_id,
            traceparent, tracestate, size_bytes, content_version, content
        from more, (select * from message order by id limit 1) as message;
        insert into event (message_id, kind, at, status, finished_at, rounds, attempts)
        select id, 'CANCELED', now() - interval '9 days', 'CANCELED', now() - interval '9 days', 0, 0 from more;
        insert into tally (day, status, n) select day_of(id), 'CANCELED', 1 from more"
    ))
    .await;
    let outbox = db.another_process().await;
    let read_before = rows_read(&db).await;
    let removed = turn(&outbox).await;
    assert_eq!(removed.finished, 20_001);
    outbox.close().await;
    db.outbox.close().await;
    db.sessions_ended().await;
    let read = rows_read(&db).await - read_before;
    // Each that stays is found, copied, and copied back.
    assert!(read < 20 * waits.len() as i64, "{read} rows were read for {} that stay", waits.len());
    db.tally_is_exact().await;
}

/// How many rows of the days' tables were read so far, by whichever way.
async fn rows_read(db: &Database) -> i64 {
    db.scalar(
        "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint from pg_stat_user_tables
        where relname ~ '^(message|event)_'",
    )
    .await
}
