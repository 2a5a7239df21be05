//! What was kept long enough goes, and nothing else.

use postrider::{
    config::Retention,
    delivery::{Class, Status},
    message::{Email, MessageId},
    outbox::{Accepted, EventKind, Outbox, Removed, Retirement},
};
use sqlx::Connection;

use super::{DAY, Draft, HOUR, attempt, claim, let_pauses_pass, settlement};
use crate::support::postgres::Database;

/// Makes the tables of a day long gone, as they were made then.
pub(super) async fn make_day(db: &Database, days_ago: u64) {
    db.outbox.clock().correct(-time::Duration::days(days_ago as i64));
    db.outbox.ensure_days(0).await.unwrap();
    db.outbox.measure_clock().await.unwrap();
}

/// Accepts one that many days ago and brings it to a status at once; says its id.
async fn aged(db: &Database, draft: &Draft, days_ago: u32, class: Option<Class>) -> MessageId {
    slowly_aged(db, draft, days_ago, days_ago, class).await
}

/// Accepts one that many days ago and brings it to a status that many days ago; says its id.
async fn slowly_aged(db: &Database, draft: &Draft, days_ago: u32, ended: u32, class: Option<Class>) -> MessageId {
    let id = Draft { age: days_ago * DAY, ..draft.clone() }.accept(&db.outbox, 1).await[0];
    db.execute("update pending set give_up_at = now() + interval '1 day'").await;
    if let Some(class) = class {
        let claimed = claim(&db.outbox, 1).await.remove(0);
        assert_eq!(claimed.lease.id, id);
        db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[class])])]).await.unwrap();
    }
    let moment = format!("now() - interval '{ended} days'");
    db.execute(&format!("update event set finished_at = {moment} where message_id = '{id}' and status is not null"))
        .await;
    db.execute(&format!("update pending set failed_at = {moment} where id = '{id}' and failed_at is not null")).await;
    db.execute(&format!(
        "update pending set due_at = now() + interval '1 day' where id = '{id}' and due_at is not null"
    ))
    .await;
    id
}

pub(super) fn retention() -> Retention {
    Retention { finished: 7 * DAY, unresolved: 90 * DAY, batch: 3, ..Retention::default() }
}

/// One turn of a process that has not had one before.
pub(super) async fn turn(outbox: &Outbox) -> Removed {
    Retirement::new(outbox.clone(), retention()).turn().await.unwrap()
}

fn finished(count: u64) -> Removed {
    Removed { finished: count, ..Removed::default() }
}

#[tokio::test]
async fn what_was_finished_long_enough_ago_goes_with_its_history_and_its_key() {
    let db = Database::new().await;
    make_day(&db, 8).await;
    make_day(&db, 6).await;
    let mut old = Vec::new();
    for n in 0..7 {
        old.push(aged(&db, &Draft::keyed(format!("old-{n}"), "r"), 8, Some(Class::Accepted)).await);
    }
    let kept = [
        aged(&db, &Draft::keyed("waits", "r"), 8, Some(Class::Unavailable)).await,
        aged(&db, &Draft::keyed("failed", "r"), 8, Some(Class::MessageRejected)).await,
        aged(&db, &Draft::keyed("recent", "r"), 6, Some(Class::Accepted)).await,
        aged(&db, &Draft::keyed("untried", "r"), 8, None).await,
        slowly_aged(&db, &Draft::keyed("slow", "r"), 8, 6, Some(Class::Accepted)).await,
    ];
    assert_eq!(turn(&db.outbox).await, finished(7));
    db.tally_is_exact().await;
    assert!(db.outbox.status(&old, None).await.unwrap().is_empty());
    assert_eq!(db.outbox.status(&kept, None).await.unwrap().len(), 5);
    assert_eq!((db.count("message").await, db.count("event").await, db.count("idempotency").await), (5, 4, 5));
    assert_eq!(turn(&db.outbox).await, finished(0));
    // The keys of those that are left still hold, and the others are free.
    let again = Draft::keyed("waits", "r").new_message(&db.outbox);
    let duplicate = Accepted::Duplicate { id: kept[0], status: Some(Status::RequiredResend) };
    assert_eq!(db.outbox.accept(&[again]).await.unwrap(), [duplicate]);
    Draft::keyed("old-0", "r").accept(&db.outbox, 1).await;
}

async fn contents(db: &Database, ids: &[MessageId]) -> Vec<(MessageId, Email)> {
    let contents = db.outbox.contents(ids).await.unwrap();
    contents.into_iter().map(|(id, content)| (id, content.unwrap().email)).collect()
}

#[tokio::test]
async fn what_stays_of_a_day_is_read_and_sent_as_before() {
    let db = Database::new().await;
    make_day(&db, 9).await;
    for _ in 0..3 {
        aged(&db, &Draft::default(), 9, Some(Class::Accepted)).await;
    }
    let draft = Draft { recipients: 2, ..Draft::keyed("k", "r") };
    let waits = aged(&db, &draft, 9, Some(Class::Unavailable)).await;
    let slow = slowly_aged(&db, &Draft::default(), 9, 2, Some(Class::Accepted)).await;
    let ids = [waits, slow];
    let statuses = db.outbox.status(&ids, None).await.unwrap();
    let contents = contents(&db, &ids).await;
    assert_eq!((statuses.len(), statuses[0].events.len(), statuses[1].events.len()), (2, 1, 1));

    assert_eq!(turn(&db.outbox).await, finished(3));
    assert_eq!(db.outbox.status(&ids, None).await.unwrap(), statuses);
    assert!(self::contents(&db, &ids).await == contents);

    let_pauses_pass(&db).await;
    let claimed = claim(&db.outbox, 10).await.remove(0);
    assert_eq!(claimed.lease.id, waits);
    let attempts = vec![attempt("primary", &[Class::Accepted, Class::Accepted])];
    db.outbox.settle(&[settlement(&claimed, 2, attempts)]).await.unwrap();
    let status = db.outbox.status(&[waits], None).await.unwrap().remove(0);
    assert_eq!(status.status, Status::SuccessSent);
    let kinds: Vec<EventKind> = status.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Attempt, EventKind::Attempt]);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn what_waited_too_long_for_a_person_goes() {
    let db = Database::new().await;
    make_day(&db, 100).await;
    make_day(&db, 80).await;
    let gone = aged(&db, &Draft::keyed("a", "r"), 100, Some(Class::MessageRejected)).await;
    let kept = aged(&db, &Draft::keyed("b", "r"), 80, Some(Class::MessageRejected)).await;
    let waits = aged(&db, &Draft::keyed("c", "r"), 100, Some(Class::Unavailable)).await;
    let slow = slowly_aged(&db, &Draft::keyed("d", "r"), 100, 80, Some(Class::MessageRejected)).await;
    assert_eq!(turn(&db.outbox).await, Removed { unresolved: 1, ..Removed::default() });
    let left: Vec<_> = db.outbox.status(&[gone, kept, waits, slow], None).await.unwrap().iter().map(|s| s.id).collect();
    assert_eq!(left, [kept, waits, slow]);
    assert_eq!((db.count("pending").await, db.count("idempotency").await), (3, 3));
    db.tally_is_exact().await;
}

/// The days there are tables for, of messages and of events.
pub(super) async fn days(db: &Database) -> (i64, i64) {
    let tables = |name: &str| format!("pg_class where relkind = 'r' and relname ~ '^{name}_\\d{{8}}$'");
    (db.count(&tables("message")).await, db.count(&tables("event")).await)
}

#[tokio::test]
async fn days_that_are_over_and_empty_are_dropped() {
    let db = Database::new().await;
    let before = days(&db).await;
    for days_ago in [20, 15, 10] {
        make_day(&db, days_ago).await;
    }
    assert_eq!(days(&db).await, (before.0 + 6, before.1 + 6), "each with the day before it");
    let left = aged(&db, &Draft::default(), 15, Some(Class::MessageRejected)).await;
    aged(&db, &Draft::default(), 10, Some(Class::Accepted)).await;
    assert_eq!(turn(&db.outbox).await, finished(1));
    assert_eq!(days(&db).await, (before.0 + 1, before.1 + 1));
    assert_eq!(db.outbox.status(&[left], None).await.unwrap().len(), 1);
    Draft::default().accept(&db.outbox, 1).await;
}

#[tokio::test]
async fn a_reader_puts_off_the_dropping_of_empty_days_and_nobody_waits_for_it() {
    let db = Database::new().await;
    let before = days(&db).await;
    make_day(&db, 10).await;
    let mut reader = db.sql.acquire().await.unwrap();
    let mut open = reader.begin().await.unwrap();
    sqlx::raw_sql("set transaction isolation level repeatable read").execute(&mut *open).await.unwrap();
    sqlx::query("select count(*) from outbox").execute(&mut *open).await.unwrap();

    let outbox = db.outbox.clone();
    let removing = tokio::spawn(async move { turn(&outbox).await });
    while !removing.is_finished() {
        Draft::default().accept(&db.outbox, 1).await;
        assert!(db.count("outbox").await > 0);
    }
    removing.await.unwrap();
    assert_ne!(days(&db).await, before, "the reader still has them");

    open.commit().await.unwrap();
    turn(&db.outbox).await;
    assert_eq!(days(&db).await, before, "what was left half done is finished");
}

#[tokio::test]
async fn a_day_of_which_most_stays_is_put_off() {
    let db = Database::new().await;
    make_day(&db, 9).await;
    aged(&db, &Draft::default(), 9, Some(Class::Accepted)).await;
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(aged(&db, &Draft::default(), 9, Some(Class::MessageRejected)).await);
    }
    let put_off = Removed { days_postponed: 1, ..Removed::default() };
    let mut retirement = Retirement::new(db.outbox.clone(), retention());
    assert_eq!(retirement.turn().await.unwrap(), put_off);
    assert_eq!(retirement.turn().await.unwrap(), put_off);
    assert_eq!(db.count("message").await, 5);
    // So few are copied in any case.
    db.execute(&format!("update pending set failed_at = now() - interval '91 days' where id = '{}'", waiting[0])).await;
    assert_eq!(retirement.turn().await.unwrap(), Removed { finished: 1, unresolved: 1, ..Removed::default() });
    assert_eq!((db.count("message").await, db.count("pending").await), (3, 3));
    db.tally_is_exact().await;
}

#[tokio::test]
async fn a_tally_that_was_wrong_is_right_for_a_day_that_was_emptied() {
    let db = Database::new().await;
    make_day(&db, 9).await;
    for class in [Class::Accepted, Class::Accepted, Class::MessageRejected] {
        aged(&db, &Draft::default(), 9, Some(class)).await;
    }
    // As an older version does, beside which this one runs.
    db.execute("delete from tally where status = 'SUCCESS_SENT'").await;
    turn(&db.outbox).await;
    assert_eq!(db.count("message").await, 1);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn an_id_older_than_retention_is_known_to_be_so() {
    let db = Database::new().await;
    let id = |age| MessageId::new_at(db.outbox.clock().now() - age);
    assert!(db.outbox.retention_passed(id(7 * DAY + HOUR), &retention()));
    assert!(!db.outbox.retention_passed(id(7 * DAY - HOUR), &retention()));
}
