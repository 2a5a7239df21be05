//! Calling messages off.

use postrider::{
    delivery::{Class, Next, ProviderName, Status},
    message::{ClientId, MessageId, RecipientIndex, UnknownOutcome},
    outbox::{Claimed, EventKind, Holding, Settled},
};

use super::{Draft, HOUR, attempt, claim, claimed_one, let_pauses_pass, settlement, settlement_of};
use crate::support::{caller::until, postgres::Database, statements::StatementCounter};

use EventKind::{Attempt, Canceled, Expired};

async fn cancel(db: &Database, id: MessageId) -> Option<Status> {
    db.outbox.cancel(&[id], None).await.unwrap()[0]
}

async fn kinds(db: &Database, id: MessageId) -> Vec<EventKind> {
    let status = db.outbox.status(&[id], None).await.unwrap().remove(0);
    status.events.iter().map(|event| event.kind).collect()
}

/// A message as it stands after a round with these outcomes, a recipient each; `next`: what the dispatcher made of it.
async fn after_round(db: &Database, draft: Draft, classes: &[Class], next: Option<Next>) -> MessageId {
    let draft = Draft { recipients: classes.len(), ..draft };
    let claimed = claimed_one(db, &draft).await;
    let attempts = vec![attempt("primary", classes)];
    let settlement = match next {
        Some(next) => settlement_of(&claimed, attempts, next),
        None => settlement(&claimed, classes.len() as u16, attempts),
    };
    assert_eq!(db.outbox.settle(&[settlement]).await.unwrap(), [Settled::Done]);
    claimed.lease.id
}

fn person(status: Status) -> Option<Next> {
    Some(Next::Person { status, open: vec![RecipientIndex(0)] })
}

fn held() -> Draft {
    Draft { unknown_outcome: UnknownOutcome::Hold, ..Draft::default() }
}

/// How a message came to stand where it does, with its status then and after it was called off, and its history.
type Case = (MessageId, Status, Status, Vec<EventKind>);

async fn those_that_wait(db: &Database) -> Vec<Case> {
    use Status::{
        Canceled as Off, FailedNotRetryable as Refused, FailedOutcomeUnknown as Unknown,
        FailedRetriesExhausted as Exhausted, NotYetSent as New, RequiredResend as Again, SuccessSent as Sent,
    };
    let later = Draft { wait: HOUR, ..Draft::default() };
    let any = Draft::default;
    vec![
        (later.accept(&db.outbox, 1).await[0], New, Off, vec![Canceled]),
        (after_round(db, any(), &[Class::Unavailable], None).await, Again, Off, vec![Attempt, Canceled]),
        (after_round(db, any(), &[Class::OutcomeUnknown], None).await, Again, Unknown, vec![Attempt, Canceled]),
        (after_round(db, any(), &[Class::Accepted, Class::Deferred], None).await, Again, Sent, vec![Attempt, Canceled]),
        (after_round(db, any(), &[Class::MessageRejected], None).await, Refused, Off, vec![Attempt, Canceled]),
        (
            after_round(db, any(), &[Class::Unavailable], person(Exhausted)).await,
            Exhausted,
            Off,
            vec![Attempt, Canceled],
        ),
        (
            after_round(db, any(), &[Class::OutcomeUnknown], person(Exhausted)).await,
            Exhausted,
            Unknown,
            vec![Attempt, Canceled],
        ),
        (after_round(db, held(), &[Class::OutcomeUnknown], None).await, Unknown, Unknown, vec![Attempt]),
    ]
}

async fn those_that_are_finished(db: &Database) -> Vec<Case> {
    use Status::{Canceled as Off, Expired as Late, SuccessSent as Sent};
    let off = Draft { wait: HOUR, ..Draft::default() }.accept(&db.outbox, 1).await[0];
    assert_eq!(cancel(db, off).await, Some(Off));
    let late = after_round(db, Draft::default(), &[Class::Unavailable], Some(Next::Finished(Late))).await;
    vec![
        (off, Off, Off, vec![Canceled]),
        (late, Late, Late, vec![Attempt, Expired]),
        (after_round(db, Draft::default(), &[Class::Accepted], None).await, Sent, Sent, vec![Attempt]),
    ]
}

#[tokio::test]
async fn each_status_has_its_answer_however_often_it_is_called_off() {
    let db = Database::new().await;
    let mut cases = those_that_wait(&db).await;
    cases.extend(those_that_are_finished(&db).await);
    for (id, before, after, history) in cases {
        let told = db.outbox.status(&[id], None).await.unwrap().remove(0);
        assert_eq!(told.status, before);
        for _ in 0..3 {
            assert_eq!(cancel(&db, id).await, Some(after), "it was {before}");
            assert_eq!(kinds(&db, id).await, history, "it was {before}");
        }
        let told = db.outbox.status(&[id], None).await.unwrap().remove(0);
        assert_eq!((told.status, told.finished_at.is_some()), (after, after.is_finished()));
    }
    let_pauses_pass(&db).await;
    assert!(claim(&db.outbox, 100).await.is_empty(), "nothing of it is sent");
    db.tally_is_exact().await;
}

#[tokio::test]
async fn what_is_known_of_the_last_attempt_outlives_the_end() {
    let db = Database::new().await;
    let id = after_round(&db, Draft::default(), &[Class::Unavailable], None).await;
    cancel(&db, id).await;
    let row: (String, i32, i32, String, String, String) = sqlx::query_as(
        "select status::text, attempts, rounds, last_provider, last_outcome::text, last_code from outbox where id = $1",
    )
    .bind(id.as_uuid())
    .fetch_one(&db.sql)
    .await
    .unwrap();
    let expected = ("CANCELED", 1, 1, "primary", "UNAVAILABLE", "code Unavailable");
    let row = (row.0.as_str(), row.1, row.2, row.3.as_str(), row.4.as_str(), row.5.as_str());
    assert_eq!(row, expected);
}

#[tokio::test]
async fn an_outcome_nobody_knows_keeps_its_provider_and_how_long_it_waited() {
    let db = Database::new().await;
    let unknown = after_round(&db, Draft::default(), &[Class::OutcomeUnknown], None).await;
    let exhausted =
        after_round(&db, Draft::default(), &[Class::OutcomeUnknown], person(Status::FailedRetriesExhausted)).await;
    db.execute("update pending set failed_at = now() - interval '3 days' where failed_at is not null").await;
    for id in [unknown, exhausted] {
        assert_eq!(cancel(&db, id).await, Some(Status::FailedOutcomeUnknown));
    }
    let told = db.outbox.status(&[unknown], None).await.unwrap().remove(0);
    assert_eq!(told.provider, Some(ProviderName::new("primary")));
    assert_eq!(db.count("pending where failed_at < now() - interval '2 days'").await, 1, "it is not kept longer");
}

/// What a dispatcher makes of a message of which it hears that it was called off.
async fn give_up(db: &Database, claimed: &Claimed) {
    let next = Next::Finished(Status::Canceled);
    assert_eq!(db.outbox.settle(&[settlement_of(claimed, Vec::new(), next)]).await.unwrap(), [Settled::Done]);
}

#[tokio::test]
async fn whoever_has_a_message_asks_nobody_more() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &held()).await;
    for _ in 0..2 {
        assert_eq!(cancel(&db, claimed.lease.id).await, Some(Status::InProcess));
    }
    let to = ProviderName::new("primary");
    let holding = db.outbox.hand_over(&claimed.lease, 1, &[], &[RecipientIndex(0)], &to).await.unwrap();
    assert_eq!(holding, Holding::Held { cancel_requested: true });
    let renewed = db.outbox.renew(&[claimed.lease], HOUR).await.unwrap();
    assert_eq!(renewed, [(claimed.lease, Holding::Held { cancel_requested: true })]);
    give_up(&db, &claimed).await;
    assert_eq!(cancel(&db, claimed.lease.id).await, Some(Status::Canceled));
    assert_eq!(kinds(&db, claimed.lease.id).await, [Canceled]);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn a_claim_and_a_cancel_at_once_agree_whoever_comes_first() {
    let db = Database::new().await;
    let other = db.another_process().await;
    let (mut claims, mut cancels) = (0, 0);
    for nth in 0..60 {
        let id = Draft::default().accept(&db.outbox, 1).await[0];
        let claiming = async {
            if nth % 3 == 0 {
                tokio::task::yield_now().await;
            }
            claim(&other, 1).await
        };
        let canceling = async {
            if nth % 3 == 1 {
                tokio::task::yield_now().await;
            }
            cancel(&db, id).await
        };
        let (claimed, canceled) = tokio::join!(claiming, canceling);
        match (&claimed[..], canceled) {
            ([], Some(Status::Canceled)) => cancels += 1,
            ([claimed], Some(Status::InProcess)) => {
                claims += 1;
                give_up(&db, claimed).await;
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(kinds(&db, id).await, [Canceled]);
    }
    assert_eq!(claims + cancels, 60);
    db.tally_is_exact().await;
}

#[tokio::test]
async fn what_another_statement_is_about_to_claim_or_to_finish_is_waited_for() {
    let db = Database::new().await;
    // Each as the other's statement leaves the row when it commits.
    let table = [
        (
            "update pending set status = 'IN_PROCESS', token = 7, provider = 'primary', due_at = now() + interval '1 h'",
            Status::InProcess,
        ),
        (
            "with gone as (delete from pending returning id)
            insert into event (message_id, at, kind, provider, class, status, finished_at, rounds, attempts)
            select id, now(), 'ATTEMPT', 'primary', 'ACCEPTED', 'SUCCESS_SENT', now(), 1, 1 from gone",
            Status::SuccessSent,
        ),
    ];
    for (sql, expected) in table {
        let id = Draft::default().accept(&db.outbox, 1).await[0];
        let mut transaction = db.sql.begin().await.unwrap();
        sqlx::query(sql).execute(&mut *transaction).await.unwrap();
        let outbox = db.outbox.clone();
        let canceling = tokio::spawn(async move { outbox.cancel(&[id], None).await.unwrap()[0] });
        until("it waits", || async { db.count("pg_locks where not granted").await > 0 }).await;
        transaction.commit().await.unwrap();
        assert_eq!(canceling.await.unwrap(), Some(expected));
        db.execute("delete from pending").await;
    }
}

#[tokio::test]
async fn many_are_called_off_at_once_and_each_has_its_answer() {
    let db = Database::new().await;
    let ours = Draft::default().accept(&db.outbox, 3).await;
    let theirs = Draft { client: "another", ..Draft::default() }.accept(&db.outbox, 1).await[0];
    let nobodys = Draft::default().new_message(&db.outbox).message.id;
    let client = ClientId::new("shop");
    let statements = StatementCounter::start();
    let ids = [ours[1], theirs, ours[0], nobodys, ours[1], ours[2]];
    let off = Some(Status::Canceled);
    assert_eq!(db.outbox.cancel(&ids[2..3], Some(&client)).await.unwrap(), [off]);
    assert_eq!(statements.take(), 1, "one statement for what waits");
    assert_eq!(db.outbox.cancel(&ids, Some(&client)).await.unwrap(), [off, None, off, None, off, off]);
    assert_eq!(db.outbox.cancel(&[], None).await.unwrap(), []);
    let status = db.outbox.status(&[theirs], None).await.unwrap().remove(0).status;
    assert_eq!(status, Status::NotYetSent, "another client's goes on");
    assert_eq!(db.outbox.cancel(&[theirs, nobodys], None).await.unwrap(), [off, None], "an operator may");
    db.tally_is_exact().await;
}
