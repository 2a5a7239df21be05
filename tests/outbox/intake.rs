//! Grouped accept and the express lane.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join_all;
use postrider::{
    delivery::Status,
    outbox::{Intake, IntakeError, LaneId, Opening, Openings, OutboxError, Receipt, Wake},
};
use sqlx::{Postgres, Transaction};
use tokio::sync::{
    OwnedSemaphorePermit, Semaphore,
    mpsc::{UnboundedReceiver, unbounded_channel},
};

use super::*;
use crate::support::statements::StatementCounter;

const PLENTY: usize = 64 * 1024 * 1024;

fn intake(db: &Database) -> Intake {
    Intake::new(db.outbox.clone(), PLENTY, None, Wake::default())
}

/// Holds every commit until what it gives is dropped.
async fn hold_commits(db: &Database) -> Transaction<'static, Postgres> {
    let mut lock = db.sql.begin().await.unwrap();
    sqlx::query("lock table pending in share mode").execute(&mut *lock).await.unwrap();
    lock
}

/// Waits until that many commits are held.
async fn held(db: &Database, commits: i64) {
    let held = "pg_locks where relation = 'pending'::regclass and not granted";
    while db.count(held).await < commits {
        tokio::task::yield_now().await;
    }
}

/// Begins to accept each message in a task of its own, in their order.
fn begin(intake: &Intake, messages: Vec<NewMessage>) -> Vec<tokio::task::JoinHandle<Result<Receipt, IntakeError>>> {
    let accept = |new| {
        let intake = intake.clone();
        tokio::spawn(async move { intake.accept(new).await })
    };
    messages.into_iter().map(accept).collect()
}

#[tokio::test]
async fn callers_at_once_are_committed_together_and_each_is_answered() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    let intake = intake(&db);
    let messages: Vec<_> = (0..64).map(|_| Draft::default().new_message(&db.outbox)).collect();
    let statements = StatementCounter::start();
    let receipts = join_all(messages.iter().map(|new| intake.accept(new.clone()))).await;
    let count = statements.take();
    assert!((1..=4).contains(&count), "{count} statements for 64 callers");
    for (new, receipt) in messages.iter().zip(receipts) {
        assert_eq!(receipt.unwrap(), Receipt { id: new.message.id, accepted: Accepted::New });
    }
    assert_eq!(db.count("pending").await, 65);
    assert_eq!(db.count("message").await, 65);
}

#[tokio::test]
async fn a_single_caller_waits_for_nobody() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    let intake = intake(&db);
    let statements = StatementCounter::start();
    for _ in 0..5 {
        intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
        assert_eq!(statements.take(), 1);
    }
}

#[tokio::test]
async fn of_many_callers_with_one_key_one_makes_the_message_and_the_others_get_its_id() {
    let db = Database::new().await;
    let intake = intake(&db);
    let message = |request| Draft::keyed("k", request).new_message(&db.outbox);
    let same = join_all((0..64).map(|_| intake.accept(message("one")))).await;
    let receipts: Vec<Receipt> = same.into_iter().map(Result::unwrap).collect();
    let winner = receipts.iter().find(|receipt| receipt.accepted == Accepted::New).unwrap().id;
    let duplicate = Accepted::Duplicate { id: winner, status: Some(Status::NotYetSent) };
    assert_eq!(receipts.iter().filter(|receipt| receipt.accepted == duplicate).count(), 63);
    let other = intake.accept(message("another")).await.unwrap();
    assert_eq!(other.accepted, Accepted::KeyReused { id: winner });
    assert_eq!(db.count("message").await, 1);
}

#[tokio::test]
async fn a_row_that_is_refused_takes_nobody_with_it() {
    let db = Database::new().await;
    let intake = intake(&db);
    let mut messages: Vec<_> = (0..30).map(|_| Draft::default().new_message(&db.outbox)).collect();
    Arc::make_mut(&mut messages[17].message).correlation_id = "secret\0".into();
    let receipts = join_all(messages.into_iter().map(|new| intake.accept(new))).await;
    for (nth, receipt) in receipts.into_iter().enumerate() {
        match receipt {
            Err(IntakeError::Outbox(OutboxError::Refused(reason))) if nth == 17 => {
                assert!(!reason.contains("secret"), "{reason}");
            }
            other => assert_eq!(other.unwrap().accepted, Accepted::New, "{nth}"),
        }
    }
    assert_eq!(db.count("message").await, 29);
}

#[tokio::test]
async fn what_was_lost_in_the_commit_is_stored_once_and_answered() {
    let db = Database::new().await;
    let intake = intake(&db);
    intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
    let lock = hold_commits(&db).await;
    let keyed = Draft::keyed("k", "one").new_message(&db.outbox);
    let calls = begin(&intake, vec![Draft::default().new_message(&db.outbox), keyed]);
    held(&db, 1).await;
    let ended: i64 = db
        .scalar(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where application_name = 'postrider' and datname = current_database()",
        )
        .await;
    assert!(ended > 0);
    drop(lock);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().accepted, Accepted::New);
    }
    assert_eq!(db.count("message").await, 3);
    assert_eq!(db.count("pending").await, 3);
    assert_eq!(db.count("idempotency").await, 1);
}

#[tokio::test]
async fn a_caller_that_goes_before_its_turn_leaves_nothing_behind_and_one_that_goes_later_one_message() {
    let db = Database::new().await;
    let intake = intake(&db);
    intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
    let lock = hold_commits(&db).await;
    let stored: Vec<_> = (0..2).map(|_| Draft::default().new_message(&db.outbox)).collect();
    let mut begun = Vec::new();
    for new in &stored {
        begun.extend(begin(&intake, vec![new.clone()]));
        held(&db, i64::try_from(begun.len()).unwrap()).await;
    }
    // Two flushes are under way: these wait for their turn.
    let waiting = begin(&intake, (0..3).map(|_| Draft::default().new_message(&db.outbox)).collect());
    tokio::task::yield_now().await;
    for call in begun.iter().chain(&waiting) {
        call.abort();
    }
    for call in begun.into_iter().chain(waiting) {
        assert!(call.await.unwrap_err().is_cancelled());
    }
    drop(lock);
    intake.finished().await;
    let ids: Vec<MessageId> = stored.iter().map(|new| new.message.id).collect();
    assert_eq!(db.outbox.status(&ids, None).await.unwrap().len(), 2);
    assert_eq!(db.count("message").await, 3);
}

#[tokio::test]
async fn callers_quicker_than_the_database_are_turned_away_until_there_is_room() {
    let db = Database::new().await;
    let size = 3 * usize::try_from({
        Draft::default().accept(&db.outbox, 1).await;
        db.scalar::<i64>("select size_bytes from message").await
    })
    .unwrap();
    let intake = Intake::new(db.outbox.clone(), size, None, Wake::default());
    let lock = hold_commits(&db).await;
    let mut calls = begin(&intake, vec![Draft::default().new_message(&db.outbox)]);
    held(&db, 1).await;
    calls.extend(begin(&intake, vec![Draft::default().new_message(&db.outbox)]));
    held(&db, 2).await;
    calls.extend(begin(&intake, vec![Draft::default().new_message(&db.outbox)]));
    tokio::task::yield_now().await;
    match intake.accept(Draft::default().new_message(&db.outbox)).await {
        Err(IntakeError::Overloaded { retry_after }) => assert!(retry_after > Duration::ZERO),
        other => panic!("{other:?}"),
    }
    drop(lock);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().accepted, Accepted::New);
    }
    intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
    assert_eq!(db.count("message").await, 5);
}

#[tokio::test]
async fn a_large_message_is_committed_alone() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    let intake = intake(&db);
    let mut messages: Vec<_> = (0..8).map(|_| Draft::default().new_message(&db.outbox)).collect();
    Arc::make_mut(&mut messages[3].message).email.text = Some("x".repeat(300 * 1024));
    join_all(messages.iter().map(|new| intake.accept(new.clone()))).await.into_iter().for_each(|receipt| {
        receipt.unwrap();
    });
    // Rows that were committed together carry the number of one transaction.
    let large = messages[3].message.id;
    let alone = format!(
        "select count(*) from message where xmin::text = (select xmin::text from message where id = '{large}')"
    );
    assert_eq!(db.scalar::<i64>(&alone).await, 1);
    assert!(db.scalar::<i64>("select count(distinct xmin::text) from message").await <= 5);
}

#[tokio::test]
async fn a_message_that_a_wrong_clock_dated_gets_the_databases_time() {
    let db = Database::new().await;
    let intake = intake(&db);
    for hours in [-30, 30] {
        db.outbox.clock().correct(time::Duration::hours(hours));
        let new = Draft::default().new_message(&db.outbox);
        let receipt = intake.accept(new.clone()).await.unwrap();
        assert_eq!(receipt.accepted, Accepted::New);
        assert_ne!(receipt.id, new.message.id);
        let now: OffsetDateTime = db.scalar("select now()").await;
        assert!((receipt.id.time() - now).abs() < time::Duration::minutes(1), "{hours}: {}", receipt.id.time());
        let status = db.outbox.status(&[receipt.id], None).await.unwrap().remove(0);
        assert!((status.accepted_at - now).abs() < time::Duration::minutes(1));
        assert!((status.due_at.unwrap() - now).abs() < time::Duration::minutes(1), "it is due as it was");
        assert!((db.outbox.clock().now() - now).abs() < time::Duration::minutes(1), "the clock is right again");
    }
    assert_eq!(db.count("message").await, 2);
}

#[tokio::test]
async fn what_is_scheduled_stays_so_though_by_a_wrong_clock_it_was_due() {
    let db = Database::new().await;
    let mut express = Express::new(&db, 1);
    let asked_for = db.outbox.clock().now() + time::Duration::hours(1);
    db.outbox.clock().correct(time::Duration::hours(30));
    let draft = Draft::default().new_message(&db.outbox);
    let new = NewMessage { scheduled_for: Some(asked_for), ..draft };
    let receipt = express.intake.accept(new).await.unwrap();
    let status = db.outbox.status(&[receipt.id], None).await.unwrap().remove(0);
    assert_eq!(status.status, Status::NotYetSent, "nobody has claimed it");
    assert!((status.due_at.unwrap() - asked_for).abs() < time::Duration::seconds(1), "{status:?}");
    assert!(express.delivered.try_recv().is_err());
}

#[tokio::test]
async fn a_day_without_a_table_is_no_fault_of_the_message() {
    let db = Database::new().await;
    let intake = intake(&db);
    let day: String = db.scalar("select to_char(now() at time zone 'UTC', 'YYYYMMDD')").await;
    db.execute(&format!("drop table message_{day}")).await;
    let answer = intake.accept(Draft::default().new_message(&db.outbox)).await;
    assert!(matches!(answer, Err(IntakeError::Outbox(OutboxError::NotSetUp(_)))), "{answer:?}");
    db.outbox.ensure_days(1).await.unwrap();
    intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
}

struct Delivery {
    claimed: Claimed,
    message: Arc<Message>,
    _permit: OwnedSemaphorePermit,
}

/// An intake with openings for so many messages, at a provider that is ready while the flag says so, and the lanes it
/// told of.
struct Express {
    intake: Intake,
    delivered: UnboundedReceiver<Delivery>,
    ready: Arc<AtomicBool>,
    wake: Wake,
}

impl Express {
    fn new(db: &Database, permits: usize) -> Self {
        let ready = Arc::new(AtomicBool::new(true));
        let is_ready = ready.clone();
        let permits = Arc::new(Semaphore::new(permits));
        let (deliveries, delivered) = unbounded_channel();
        let admits = move |_: LaneId, _: &NewMessage| {
            let permit = permits.clone().try_acquire_owned().ok().filter(|_| is_ready.load(Ordering::Relaxed))?;
            let deliveries = deliveries.clone();
            Some(Opening::new(ProviderName::new("primary"), move |claimed, message| {
                let delivery = Delivery { claimed, message, _permit: permit };
                deliveries.send(delivery).map_err(|unsent| unsent.0.claimed.lease)
            }))
        };
        let openings = Openings::new(30 * SECOND, admits);
        let wake = Wake::new(db.outbox.clock().clone());
        let intake = Intake::new(db.outbox.clone(), PLENTY, Some(openings), wake.clone());
        Self { intake, delivered, ready, wake }
    }

    async fn accept(&self, db: &Database, draft: &Draft) -> MessageId {
        let receipt = self.intake.accept(draft.new_message(&db.outbox)).await.unwrap();
        assert_eq!(receipt.accepted, Accepted::New);
        receipt.id
    }
}

#[tokio::test]
async fn what_can_be_sent_at_once_is_stored_under_a_lease_and_comes_from_memory() {
    let db = Database::new().await;
    let mut express = Express::new(&db, 1);
    let id = express.accept(&db, &Draft::default()).await;
    let delivery = express.delivered.recv().await.unwrap();
    assert_eq!((delivery.claimed.lease.id, delivery.message.id), (id, id));
    assert!(delivery.claimed.untried && delivery.claimed.leased_until > db.outbox.clock().now() + 20 * SECOND);
    assert_eq!(db.count("pending where status = 'IN_PROCESS' and begun_at is not null").await, 1);
    assert_eq!(claim(&db.outbox, 10).await, [], "nobody else may take it");

    // The one permit is used: the next waits for a claim.
    let next = express.accept(&db, &Draft::default()).await;
    assert_eq!(express.wake.take().now.len(), 1);
    let claimed = claim(&db.outbox, 10).await;
    assert_eq!(claimed[0].lease.id, next);

    let settlement = settlement(&delivery.claimed, 1, vec![attempt("primary", &[Class::Accepted])]);
    drop(delivery);
    db.outbox.settle(&[settlement]).await.unwrap();
    let status = db.outbox.status(&[id], None).await.unwrap().remove(0);
    assert_eq!((status.status, status.rounds, status.events.len()), (Status::SuccessSent, 1, 1));
    express.accept(&db, &Draft::default()).await;
    assert!(express.delivered.try_recv().is_ok(), "the permit is free again");
}

#[tokio::test]
async fn what_nobody_can_take_or_is_due_later_or_lost_its_key_waits_as_usual() {
    let db = Database::new().await;
    let mut express = Express::new(&db, 2);
    express.accept(&db, &Draft { wait: HOUR, ..Draft::default() }).await;
    let news = express.wake.take();
    assert_eq!((news.now.len(), news.later.len()), (0, 1), "what is due later needs no claim now");
    express.ready.store(false, Ordering::Relaxed);
    express.accept(&db, &Draft::default()).await;
    assert_eq!(express.wake.take().now.len(), 1);
    express.ready.store(true, Ordering::Relaxed);
    express.accept(&db, &Draft::keyed("k", "one")).await;
    assert!(express.delivered.recv().await.is_some());
    for _ in 0..5 {
        let lost = express.intake.accept(Draft::keyed("k", "one").new_message(&db.outbox)).await.unwrap();
        assert!(matches!(lost.accepted, Accepted::Duplicate { .. }));
    }
    express.accept(&db, &Draft::default()).await;
    assert!(express.delivered.recv().await.is_some(), "losers give their permits back");
    assert_eq!(db.count("pending where status = 'NOT_YET_SENT'").await, 2);
}

#[tokio::test]
async fn under_hold_sending_is_put_on_record_before_it_begins() {
    let db = Database::new().await;
    let mut express = Express::new(&db, 1);
    express.accept(&db, &Draft { unknown_outcome: UnknownOutcome::Hold, ..Draft::default() }).await;
    assert!(express.delivered.recv().await.is_some());
    assert_eq!(db.count("pending where status = 'IN_PROCESS' and begun_at is null").await, 1);
}

#[tokio::test]
async fn what_is_stored_for_a_dispatcher_that_has_gone_is_given_back() {
    let db = Database::new().await;
    let Express { intake, delivered, .. } = Express::new(&db, 1);
    drop(delivered);
    let receipt = intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
    intake.finished().await;
    let claimed = claim(&db.outbox, 10).await;
    assert_eq!((claimed[0].lease.id, claimed[0].untried), (receipt.id, true));
}

#[tokio::test]
async fn what_was_claimed_for_us_in_a_lost_commit_is_still_delivered() {
    let db = Database::new().await;
    let mut express = Express::new(&db, 2);
    express.accept(&db, &Draft::default()).await;
    drop(express.delivered.recv().await);
    let lock = hold_commits(&db).await;
    let messages = vec![Draft::default().new_message(&db.outbox), Draft::keyed("k", "one").new_message(&db.outbox)];
    let calls = begin(&express.intake, messages);
    held(&db, 1).await;
    db.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'postrider' and datname = current_database()").await;
    drop(lock);
    for call in calls {
        let id = call.await.unwrap().unwrap().id;
        assert_eq!(express.delivered.recv().await.unwrap().claimed.lease.id, id);
    }
    assert_eq!(db.count("pending where status = 'IN_PROCESS'").await, 3);
}

#[tokio::test]
async fn a_flush_that_panics_takes_neither_place_nor_bytes_with_it() {
    let db = Database::new().await;
    let size = {
        Draft::default().accept(&db.outbox, 1).await;
        usize::try_from(db.scalar::<i64>("select size_bytes from message").await).unwrap()
    };
    let left = std::sync::Mutex::new(5);
    let openings = Openings::new(30 * SECOND, move |_, _| {
        let mut left = left.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *left == 0 {
            return None;
        }
        *left -= 1;
        panic!("as a fault of ours would");
    });
    let intake = Intake::new(db.outbox.clone(), size, Some(openings), Wake::default());
    for _ in 0..5 {
        let answer = intake.accept(Draft::default().new_message(&db.outbox)).await;
        assert!(matches!(answer, Err(IntakeError::Outbox(OutboxError::Unavailable(_)))), "{answer:?}");
    }
    for _ in 0..3 {
        intake.accept(Draft::default().new_message(&db.outbox)).await.unwrap();
    }
    assert_eq!(db.count("message").await, 4);
}
