//! Who was considered and not asked is kept with whatever is written, and comes back as it was.

use std::time::Duration;

use postrider::{
    delivery::{Attempt, Class, Next, ProviderName, Skip, Status},
    message::RecipientIndex,
    outbox::{EventKind, MessageStatus, Settled, Settlement},
};
use time::{OffsetDateTime, macros::datetime};

use super::{Draft, HOUR, attempt, claim, claimed_one, let_leases_run_out, let_pauses_pass, settlement, settlement_of};
use crate::support::postgres::Database;

const UNTIL: OffsetDateTime = datetime!(2031-05-06 07:08:09.123456 UTC);

fn skip(provider: &str, until: Option<OffsetDateTime>) -> Skip {
    Skip { provider: ProviderName::new(provider), reason: format!("{provider} is \"not\" to be asked"), until }
}

/// An attempt after those were passed over.
fn attempt_after(skipped: &[Skip], provider: &str, class: Class) -> Attempt {
    Attempt { skipped: skipped.to_vec(), ..attempt(provider, &[class]) }
}

async fn status(db: &Database, one: &postrider::outbox::Claimed) -> MessageStatus {
    db.outbox.status(&[one.lease.id], None).await.unwrap().remove(0)
}

fn skipped(status: &MessageStatus) -> Vec<(EventKind, Vec<Skip>)> {
    status.events.iter().map(|event| (event.kind, event.skipped.clone())).collect()
}

#[tokio::test]
async fn what_went_well_at_the_first_try_keeps_who_was_passed_over() {
    let db = Database::new().await;
    let one = claimed_one(&db, &Draft::default()).await;
    let before = [skip("first", Some(UNTIL)), skip("second", None)];
    let sent = settlement(&one, 1, vec![attempt_after(&before, "third", Class::Accepted)]);
    assert_eq!(db.outbox.settle(&[sent]).await.unwrap(), [Settled::Done]);
    assert_eq!(skipped(&status(&db, &one).await), [(EventKind::Attempt, before.to_vec())]);
}

#[tokio::test]
async fn each_step_of_a_round_keeps_its_own_and_the_row_those_of_its_end() {
    let db = Database::new().await;
    let one = claimed_one(&db, &Draft::default()).await;
    let (a, c, e) = ([skip("a", None)], [skip("c", Some(UNTIL))], vec![skip("e", Some(UNTIL))]);
    let handed_over = attempt_after(&a, "b", Class::Unavailable);
    let next = ProviderName::new("d");
    db.outbox.hand_over(&one.lease, 1, &[handed_over], &[RecipientIndex(0)], &next).await.unwrap();
    let failed = settlement(&one, 1, vec![attempt_after(&c, "d", Class::Unavailable)]);
    assert_eq!(db.outbox.settle(&[Settlement { skipped: e.clone(), ..failed }]).await.unwrap(), [Settled::Done]);
    let told = status(&db, &one).await;
    assert_eq!(skipped(&told), [(EventKind::Attempt, a.to_vec()), (EventKind::Attempt, c.to_vec())]);
    assert_eq!(told.skipped, e);

    // The next round passes nobody over.
    let_pauses_pass(&db).await;
    let again = claim(&db.outbox, 1).await.remove(0);
    db.outbox.settle(&[settlement(&again, 1, vec![attempt("b", &[Class::Unavailable])])]).await.unwrap();
    assert_eq!(status(&db, &one).await.skipped, []);
}

#[tokio::test]
async fn what_comes_late_keeps_its_own_too() {
    let db = Database::new().await;
    let one = claimed_one(&db, &Draft::default()).await;
    let_leases_run_out(&db).await;
    claim(&db.outbox, 1).await;
    let before = [skip("first", Some(UNTIL))];
    let late = settlement(&one, 1, vec![attempt_after(&before, "second", Class::Unavailable)]);
    assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
    let told = skipped(&status(&db, &one).await);
    assert_eq!(told, [(EventKind::Takeover, Vec::new()), (EventKind::LateOutcome, before.to_vec())]);
}

#[tokio::test]
async fn a_round_without_an_attempt_is_told_of_in_the_row_and_by_whatever_ends_the_message() {
    let db = Database::new().await;
    let waiting = vec![skip("only", Some(UNTIL))];
    for (draft, ends) in [
        (Draft { expire_in: Some(HOUR), ..Draft::default() }, (Status::Expired, EventKind::Expired)),
        (Draft::default(), (Status::FailedRetriesExhausted, EventKind::GaveUp)),
    ] {
        let one = claimed_one(&db, &draft).await;
        let next = Next::Again {
            status: Status::NotYetSent,
            due_at: db.outbox.clock().now() + Duration::from_secs(60),
            open: vec![RecipientIndex(0)],
            round_spent: false,
            ask_first: None,
        };
        let round = Settlement { skipped: waiting.clone(), ..settlement_of(&one, Vec::new(), next) };
        assert_eq!(db.outbox.settle(&[round]).await.unwrap(), [Settled::Done]);
        let told = status(&db, &one).await;
        assert_eq!((told.status, told.skipped.as_slice(), told.events.len()), (Status::NotYetSent, &waiting[..], 0));

        db.execute("update pending set due_at = now(), give_up_at = now(), expire_at = expire_at - interval '1 hour'")
            .await;
        assert_eq!(claim(&db.outbox, 10).await, []);
        let told = status(&db, &one).await;
        assert_eq!((told.status, skipped(&told)), (ends.0, vec![(ends.1, waiting.clone())]));
    }
}
