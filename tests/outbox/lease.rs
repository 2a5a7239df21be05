//! Leases are renewed, given back, and lost.

use postrider::{
    delivery::{Class, ProviderName, Status},
    message::{RecipientIndex, UnknownOutcome},
    outbox::{EventKind, Holding, Lease, Settled},
};

use super::{Draft, HOUR, SECOND, attempt, claim, claimed_one, let_leases_run_out, let_pauses_pass, settlement};
use crate::support::postgres::Database;

const HELD: Holding = Holding::Held { cancel_requested: false };

#[tokio::test]
async fn a_renewed_lease_is_not_taken_over() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    let_leases_run_out(&db).await;
    let stranger = Lease { token: claimed.lease.token.wrapping_add(1), ..claimed.lease };
    let renewed = db.outbox.renew(&[stranger, claimed.lease], HOUR).await.unwrap();
    assert_eq!(renewed, [(stranger, Holding::Lost), (claimed.lease, HELD)]);
    assert!(claim(&db.outbox, 10).await.is_empty());
    let status = db.outbox.status(&[claimed.lease.id], None).await.unwrap().remove(0);
    let due_at = status.due_at.unwrap();
    assert!(due_at > db.outbox.clock().now() + HOUR / 2);
}

#[tokio::test]
async fn a_lease_taken_over_is_lost_for_everything() {
    let db = Database::new().await;
    let first = claimed_one(&db, &Draft::default()).await;
    let_leases_run_out(&db).await;
    let second = claim(&db.outbox, 10).await.remove(0);
    let provider = ProviderName::new("secondary");
    let finished = [attempt("primary", &[Class::Unavailable])];
    let lost = db.outbox.hand_over(&first.lease, 1, &finished, &[RecipientIndex(0)], &provider).await.unwrap();
    assert_eq!(lost, Holding::Lost);
    assert_eq!(db.outbox.renew(&[first.lease], HOUR).await.unwrap(), [(first.lease, Holding::Lost)]);
    assert_eq!(db.outbox.release(&[first.lease]).await.unwrap(), 0);
    let settled = db.outbox.settle(&[settlement(&first, 1, finished.to_vec())]).await.unwrap();
    assert_eq!(settled, [Settled::Late]);
    assert_eq!(db.outbox.renew(&[second.lease], HOUR).await.unwrap(), [(second.lease, HELD)]);
}

#[tokio::test]
async fn a_renewal_tells_that_the_message_was_called_off() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    db.execute("update pending set cancel_requested = true").await;
    let renewed = db.outbox.renew(&[claimed.lease], HOUR).await.unwrap();
    assert_eq!(renewed, [(claimed.lease, Holding::Held { cancel_requested: true })]);
}

#[tokio::test]
async fn what_is_released_is_due_at_once_as_it_was() {
    let db = Database::new().await;
    let untried = claimed_one(&db, &Draft::default()).await;
    assert_eq!(db.outbox.release(&[untried.lease]).await.unwrap(), 1);
    let status = || async { db.outbox.status(&[untried.lease.id], None).await.unwrap().remove(0) };
    assert_eq!((status().await.status, status().await.rounds), (Status::NotYetSent, 0));

    let again = claim(&db.outbox, 10).await.remove(0);
    assert!(again.untried);
    let deferred = settlement(&again, 1, vec![attempt("secondary", &[Class::Deferred])]);
    assert_eq!(db.outbox.settle(&[deferred]).await.unwrap(), [Settled::Done]);
    let_pauses_pass(&db).await;
    let third = claim(&db.outbox, 10).await.remove(0);
    assert_eq!((third.provider.as_str(), third.ask_first, third.rounds), ("secondary", true, 1));
    assert_eq!(db.outbox.release(&[third.lease]).await.unwrap(), 1);
    assert_eq!((status().await.status, status().await.rounds), (Status::RequiredResend, 1));
    let fourth = claim(&db.outbox, 10).await.remove(0);
    assert_eq!((fourth.provider.as_str(), fourth.ask_first), ("secondary", true), "it still is asked first");
    assert_eq!(status().await.events.len(), 1, "a release is not part of the history");
}

#[tokio::test]
async fn what_is_postponed_is_due_after_the_pause_or_when_it_has_to_end() {
    let db = Database::new().await;
    let drafts = [Draft::default(), Draft { expire_in: Some(HOUR), ..Draft::default() }, Draft::default()];
    let mut ids = Vec::new();
    for draft in drafts {
        ids.extend(draft.accept(&db.outbox, 1).await);
    }
    let claimed = claim(&db.outbox, 10).await;
    let leases: Vec<Lease> = claimed.iter().map(|one| one.lease).collect();
    db.execute(&format!("update pending set cancel_requested = true where id = '{}'", ids[2])).await;
    assert_eq!(db.outbox.postpone(&leases, 2 * HOUR).await.unwrap(), 3);
    let statuses = db.outbox.status(&ids, None).await.unwrap();
    assert!(statuses.iter().all(|one| (one.status, one.rounds, one.events.len()) == (Status::NotYetSent, 0, 0)));
    let minutes: Vec<f64> =
        statuses.iter().map(|one| (one.due_at.unwrap() - one.accepted_at).as_seconds_f64() / 60.0).collect();
    for (minutes, expected) in minutes.iter().zip([120.0, 60.0, 0.0]) {
        assert!((minutes - expected).abs() < 2.0, "{minutes} is not about {expected}");
    }
    assert_eq!(db.outbox.postpone(&leases, HOUR).await.unwrap(), 0, "the leases have ended");
}

#[tokio::test]
async fn a_hand_over_writes_down_what_was_tried_and_who_is_next() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft { recipients: 2, ..Draft::default() }).await;
    let tried = attempt("primary", &[Class::Accepted, Class::Unavailable]);
    let next = ProviderName::new("secondary");
    // Twice, as when the first answer was lost.
    for _ in 0..2 {
        let held = db
            .outbox
            .hand_over(&claimed.lease, 1, std::slice::from_ref(&tried), &[RecipientIndex(1)], &next)
            .await
            .unwrap();
        assert_eq!(held, HELD);
    }
    let after = db.outbox.status(&[claimed.lease.id], None).await.unwrap().remove(0);
    assert_eq!(after.provider, Some(next));
    assert_eq!(after.events.len(), 1);
    let event = &after.events[0];
    assert_eq!((event.kind, event.round, event.at), (EventKind::Attempt, Some(1), tried.started_at));
    assert_eq!(event.duration, Some(tried.duration));
    assert_eq!(event.verdicts, tried.outcome.verdicts);
    assert_eq!(db.scalar::<i32>("select attempts from outbox").await, 1);

    let_leases_run_out(&db).await;
    let again = claim(&db.outbox, 10).await.remove(0);
    assert_eq!((again.provider.as_str(), again.ask_first), ("secondary", true), "the second may have it");
    assert_eq!((again.open, again.accepted_before), (Some(vec![RecipientIndex(1)]), true));
}

#[tokio::test]
async fn nobody_is_asked_for_what_was_called_off() {
    let db = Database::new().await;
    let hold = Draft { unknown_outcome: UnknownOutcome::Hold, ..Draft::default() };
    let claimed = claimed_one(&db, &hold).await;
    db.execute("update pending set cancel_requested = true").await;
    let provider = ProviderName::new("primary");
    let held = db.outbox.hand_over(&claimed.lease, 1, &[], &[RecipientIndex(0)], &provider).await.unwrap();
    assert_eq!(held, Holding::Held { cancel_requested: true });
    // And if that dispatcher dies now, it is on record that nothing was sent.
    let_leases_run_out(&db).await;
    assert!(claim(&db.outbox, 10).await.is_empty());
    let after = db.outbox.status(&[claimed.lease.id], None).await.unwrap().remove(0);
    assert_eq!(after.status, Status::Canceled);
}

#[tokio::test]
async fn a_renewal_that_waited_for_another_write_still_holds() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    let mut other = db.sql.begin().await.unwrap();
    sqlx::query("update pending set cancel_requested = true").execute(&mut *other).await.unwrap();
    let (outbox, lease) = (db.outbox.clone(), claimed.lease);
    let renewal = tokio::spawn(async move { outbox.renew(&[lease], 30 * SECOND).await.unwrap() });
    let waits = "pg_locks where not granted and pid in
        (select pid from pg_stat_activity where datname = current_database())";
    while db.count(waits).await < 1 {
        tokio::task::yield_now().await;
    }
    other.commit().await.unwrap();
    assert_eq!(renewal.await.unwrap(), [(lease, Holding::Held { cancel_requested: true })]);
}
