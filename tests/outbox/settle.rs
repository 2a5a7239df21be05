//! Outcomes are written back under the lease, and late ones change nothing newer.

use std::collections::BTreeMap;

use postrider::{
    delivery::{Class, Next, ProviderName, Status},
    message::{MessageId, RecipientIndex, UnknownOutcome},
    outbox::{Claimed, EventKind, Holding, MessageStatus, OutboxError, Settled, Settlement},
};
use tokio::task::JoinSet;

use super::{
    Draft, SECOND, attempt, begin, claim, claimed_one, let_leases_run_out, let_pauses_pass, settlement, settlement_of,
};
use crate::support::postgres::Database;

async fn status(db: &Database, id: MessageId) -> MessageStatus {
    db.outbox.status(&[id], None).await.unwrap().remove(0)
}

/// The row of a message as a person sees it.
async fn row(db: &Database, id: MessageId) -> String {
    db.scalar(&format!(
        "select concat_ws(' ', status, attempts, rounds, last_provider, last_outcome, last_code, provider_message_id,
            case when last_attempt_at is not null then 'tried' end,
            case when finished_at is not null then 'finished' end,
            case when due_at is not null then 'due' end)
        from outbox where id = '{id}'"
    ))
    .await
}

#[tokio::test]
async fn after_each_class_the_row_shows_provider_class_and_code() {
    let db = Database::new().await;
    let table = [
        (Class::Accepted, "SUCCESS_SENT 1 1", "finished"),
        (Class::RecipientRejected, "FAILED_NOT_RETRYABLE 1 1", ""),
        (Class::MessageRejected, "FAILED_NOT_RETRYABLE 1 1", ""),
        (Class::UnfitHere, "FAILED_NOT_RETRYABLE 1 1", ""),
        (Class::Deferred, "REQUIRED_RESEND 1 1", "due"),
        (Class::Unavailable, "REQUIRED_RESEND 1 1", "due"),
        (Class::Throttled, "REQUIRED_RESEND 1 0", "due"),
        (Class::QuotaUsedUp, "REQUIRED_RESEND 1 0", "due"),
        (Class::Misconfigured, "REQUIRED_RESEND 1 0", "due"),
        (Class::OutcomeUnknown, "REQUIRED_RESEND 1 1", "due"),
    ];
    assert_eq!(table.map(|(class, ..)| class), Class::ALL);
    Draft::default().accept(&db.outbox, table.len()).await;
    let claimed = claim(&db.outbox, table.len()).await;
    // One batch, mixed.
    let settlements: Vec<Settlement> = claimed
        .iter()
        .zip(&table)
        .map(|(one, (class, ..))| settlement(one, 1, vec![attempt("primary", &[*class])]))
        .collect();
    assert_eq!(db.outbox.settle(&settlements).await.unwrap(), vec![Settled::Done; table.len()]);
    for (one, (class, head, tail)) in claimed.iter().zip(&table) {
        let expected = format!("{head} primary {} code {class:?} their-id tried {tail}", class.as_str());
        assert_eq!(row(&db, one.lease.id).await, expected.trim_end(), "{class:?}");
        let after = status(&db, one.lease.id).await;
        assert_eq!(after.events.len(), 1);
        assert_eq!(after.events[0].class, Some(*class));
        assert_eq!(after.events[0].detail.as_deref(), Some("so it said"));
        assert_eq!(after.finished_at.is_some(), after.status.is_finished());
    }
    assert_eq!(db.count("pending").await, table.len() as i64 - 1, "what is sent has left it");
}

#[tokio::test]
async fn a_failed_over_message_keeps_every_attempt_and_shows_the_last() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    let attempts = vec![attempt("primary", &[Class::Unavailable]), attempt("secondary", &[Class::Accepted])];
    db.outbox.settle(&[settlement(&claimed, 1, attempts)]).await.unwrap();
    let id = claimed.lease.id;
    assert_eq!(row(&db, id).await, "SUCCESS_SENT 2 1 secondary ACCEPTED code Accepted their-id tried finished");
    let classes: Vec<_> = status(&db, id).await.events.iter().map(|event| event.class.unwrap()).collect();
    assert_eq!(classes, [Class::Unavailable, Class::Accepted]);
}

#[tokio::test]
async fn each_recipient_has_its_own_fate() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft { recipients: 3, ..Draft::default() }).await;
    let id = claimed.lease.id;
    let first = attempt("primary", &[Class::Accepted, Class::RecipientRejected, Class::Deferred]);
    db.outbox.settle(&[settlement(&claimed, 3, vec![first.clone()])]).await.unwrap();
    assert_eq!(status(&db, id).await.events[0].verdicts, first.outcome.verdicts);

    let_pauses_pass(&db).await;
    let again = claim(&db.outbox, 10).await.remove(0);
    assert_eq!((again.open.as_deref(), again.accepted_before), (Some(&[RecipientIndex(2)][..]), true));
    assert_eq!((again.provider.as_str(), again.ask_first), ("primary", true));
    let mut second = attempt("primary", &[Class::RecipientRejected]);
    second.outcome.verdicts[0].0 = RecipientIndex(2);
    db.outbox.settle(&[settlement(&again, 3, vec![second.clone()])]).await.unwrap();
    let after = status(&db, id).await;
    assert_eq!((after.status, after.rounds), (Status::SuccessSent, 2), "one was accepted, none is left");
    assert_eq!(after.events[1].verdicts, second.outcome.verdicts);
}

#[tokio::test]
async fn the_rounds_end_in_front_of_a_person() {
    let db = Database::new().await;
    let id = Draft::default().accept(&db.outbox, 1).await[0];
    for round in 1..=3 {
        let_pauses_pass(&db).await;
        let claimed = claim(&db.outbox, 10).await.remove(0);
        assert_eq!(claimed.rounds, round - 1);
        db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::Unavailable])])]).await.unwrap();
    }
    let after = status(&db, id).await;
    assert_eq!((after.status, after.rounds, after.due_at), (Status::FailedRetriesExhausted, 3, None));
    assert_eq!(after.events.iter().map(|event| event.round).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
    assert!(claim(&db.outbox, 10).await.is_empty());
}

#[tokio::test]
async fn what_waits_without_having_been_tried_spends_nothing_and_keeps_its_provider() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    db.outbox.settle(&[settlement(&claimed, 1, Vec::new())]).await.unwrap();
    let id = claimed.lease.id;
    assert_eq!(row(&db, id).await, "NOT_YET_SENT 0 0 due");

    let_pauses_pass(&db).await;
    let second = claim(&db.outbox, 10).await.remove(0);
    db.outbox.settle(&[settlement(&second, 1, vec![attempt("primary", &[Class::OutcomeUnknown])])]).await.unwrap();
    let_pauses_pass(&db).await;
    let third = claim(&db.outbox, 10).await.remove(0);
    assert!(third.ask_first && third.unknown_since.is_some());
    // Whoever may have it was not ready, so nobody was asked.
    db.outbox.settle(&[settlement(&third, 1, Vec::new())]).await.unwrap();
    let_pauses_pass(&db).await;
    let fourth = claim(&db.outbox, 10).await.remove(0);
    assert_eq!((fourth.provider.as_str(), fourth.ask_first, fourth.rounds), ("primary", true, 1));
}

#[tokio::test]
async fn under_hold_an_unknown_outcome_waits_for_a_person_with_the_provider_named() {
    let db = Database::new().await;
    let hold = Draft { unknown_outcome: UnknownOutcome::Hold, ..Draft::default() };
    let claimed = claimed_one(&db, &hold).await;
    let (id, provider) = (claimed.lease.id, ProviderName::new("primary"));
    db.outbox.hand_over(&claimed.lease, 1, &[], &[RecipientIndex(0)], &provider).await.unwrap();
    db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::OutcomeUnknown])])]).await.unwrap();
    let after = status(&db, id).await;
    assert_eq!((after.status, after.provider), (Status::FailedOutcomeUnknown, Some(provider)));
}

#[tokio::test]
async fn a_message_called_off_or_expired_meanwhile_says_what_ended_it() {
    let db = Database::new().await;
    let cases = [
        (Next::Finished(Status::Canceled), Class::Unavailable, vec![EventKind::Attempt, EventKind::Canceled]),
        (Next::Finished(Status::Expired), Class::Unavailable, vec![EventKind::Attempt, EventKind::Expired]),
        (Next::Finished(Status::SuccessSent), Class::Accepted, vec![EventKind::Attempt]),
        // Sent to some; the others were still open when it was called off.
        (Next::Finished(Status::SuccessSent), Class::Deferred, vec![EventKind::Attempt, EventKind::Canceled]),
    ];
    Draft::default().accept(&db.outbox, cases.len()).await;
    let claimed = claim(&db.outbox, 10).await;
    for (one, (next, class, kinds)) in claimed.iter().zip(cases) {
        let expected = next.clone();
        db.outbox.settle(&[settlement_of(one, vec![attempt("primary", &[class])], next)]).await.unwrap();
        let after = status(&db, one.lease.id).await;
        assert_eq!(Next::Finished(after.status), expected);
        assert_eq!(after.events.iter().map(|event| event.kind).collect::<Vec<_>>(), kinds);
        let shown = row(&db, one.lease.id).await;
        assert!(shown.contains(&format!("1 1 primary {} code {class:?}", class.as_str())), "{shown}");
    }
    assert_eq!(db.count("pending").await, 0);
}

#[tokio::test]
async fn what_is_called_off_while_it_is_settled_is_not_tried_again() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    db.execute("update pending set cancel_requested = true").await;
    db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::Unavailable])])]).await.unwrap();
    assert!(claim(&db.outbox, 10).await.is_empty(), "it is due at once, and not to be sent");
    assert_eq!(status(&db, claimed.lease.id).await.status, Status::Canceled);
}

#[tokio::test]
async fn a_settle_made_again_writes_nothing_twice() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 2).await;
    let claimed = claim(&db.outbox, 2).await;
    let settlements = [
        settlement(&claimed[0], 1, vec![attempt("primary", &[Class::Accepted])]),
        settlement(&claimed[1], 1, vec![attempt("primary", &[Class::Unavailable])]),
    ];
    for _ in 0..2 {
        assert_eq!(db.outbox.settle(&settlements).await.unwrap(), [Settled::Done, Settled::Done]);
    }
    assert_eq!(db.count("event").await, 2);
    assert_eq!(db.scalar::<i32>("select rounds from pending").await, 1);
    let twice = [settlements[0].clone(), settlements[0].clone()];
    assert_eq!(db.outbox.settle(&twice).await.unwrap(), [Settled::Done, Settled::Done]);
    assert_eq!(db.outbox.settle(&[]).await.unwrap(), []);
}

/// A message that one dispatcher has sent and another has taken over.
async fn taken_over(db: &Database, draft: &Draft) -> (Claimed, Claimed) {
    let first = claimed_one(db, draft).await;
    let_leases_run_out(db).await;
    let taken = claim(&db.outbox, 10).await;
    let second = taken.into_iter().find(|claimed| claimed.lease.id == first.lease.id).unwrap();
    (first, second)
}

#[tokio::test]
async fn a_late_outcome_is_added_to_the_history_and_changes_nothing_newer() {
    let db = Database::new().await;
    // While the other still holds it.
    let (first, second) = taken_over(&db, &Draft::default()).await;
    let id = first.lease.id;
    let before: String = db.scalar("select pending::text from pending").await;
    let late = settlement(&first, 1, vec![attempt("primary", &[Class::Unavailable])]);
    assert_eq!(db.outbox.settle(std::slice::from_ref(&late)).await.unwrap(), [Settled::Late]);
    assert_eq!(db.scalar::<String>("select pending::text from pending").await, before);

    // And after the other has finished it.
    db.outbox.settle(&[settlement(&second, 1, vec![attempt("secondary", &[Class::Accepted])])]).await.unwrap();
    let finished = row(&db, id).await;
    let later = settlement(&first, 1, vec![attempt("elsewhere", &[Class::MessageRejected])]);
    assert_eq!(db.outbox.settle(&[later]).await.unwrap(), [Settled::Late]);
    assert_eq!(row(&db, id).await, finished);
    let kinds: Vec<EventKind> = status(&db, id).await.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Takeover, EventKind::LateOutcome, EventKind::Attempt, EventKind::LateOutcome]);
    // Written once, however often it is told.
    assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Done]);
    assert_eq!(status(&db, id).await.events.len(), 4);
}

#[tokio::test]
async fn a_late_failure_leaves_what_waits_as_it_is() {
    let db = Database::new().await;
    let (first, second) = taken_over(&db, &Draft::default()).await;
    db.outbox.settle(&[settlement(&second, 1, vec![attempt("primary", &[Class::Deferred])])]).await.unwrap();
    let before: String = db.scalar("select pending::text from pending").await;
    let late = settlement(&first, 1, vec![attempt("primary", &[Class::MessageRejected])]);
    assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
    assert_eq!(db.scalar::<String>("select pending::text from pending").await, before);
}

#[tokio::test]
async fn a_late_acceptance_ends_what_waits() {
    let db = Database::new().await;
    let table = [
        (Status::RequiredResend, Status::SuccessSent),
        (Status::FailedOutcomeUnknown, Status::SuccessSent),
        (Status::FailedRetriesExhausted, Status::SuccessSent),
        (Status::FailedNotRetryable, Status::FailedNotRetryable),
    ];
    for (waits, becomes) in table {
        let (first, second) = taken_over(&db, &Draft::default()).await;
        let next = match waits {
            Status::RequiredResend => settlement(&second, 1, vec![attempt("secondary", &[Class::Unavailable])]).next,
            status => Next::Person { status, open: vec![RecipientIndex(0)] },
        };
        let waiting = settlement_of(&second, vec![attempt("secondary", &[Class::Unavailable])], next);
        db.outbox.settle(&[waiting]).await.unwrap();
        assert_eq!(status(&db, first.lease.id).await.status, waits);
        let late = settlement(&first, 1, vec![attempt("primary", &[Class::Accepted])]);
        assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
        let after = status(&db, first.lease.id).await;
        assert_eq!(after.status, becomes);
        assert_eq!(after.events.last().unwrap().kind, EventKind::LateOutcome);
        if becomes == Status::SuccessSent {
            let shown = row(&db, first.lease.id).await;
            assert_eq!(shown, "SUCCESS_SENT 2 2 primary ACCEPTED code Accepted their-id tried finished");
        }
    }
}

#[tokio::test]
async fn recipients_accepted_late_are_not_sent_to_again() {
    let db = Database::new().await;
    let (first, second) = taken_over(&db, &Draft { recipients: 2, ..Draft::default() }).await;
    let id = first.lease.id;
    db.outbox.settle(&[settlement(&second, 2, vec![attempt("secondary", &[Class::Unavailable; 2])])]).await.unwrap();
    let late = settlement(&first, 2, vec![attempt("primary", &[Class::Deferred, Class::Accepted])]);
    assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
    assert_eq!(status(&db, id).await.status, Status::RequiredResend);
    let_pauses_pass(&db).await;
    let third = claim(&db.outbox, 10).await.remove(0);
    assert_eq!((third.open, third.accepted_before), (Some(vec![RecipientIndex(0)]), true));
}

#[tokio::test]
async fn a_late_acceptance_ends_what_another_dispatcher_has() {
    let db = Database::new().await;
    let (first, second) = taken_over(&db, &Draft::default()).await;
    begin(&db, &second).await;
    let late = settlement(&first, 1, vec![attempt("primary", &[Class::Accepted])]);
    assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
    let sent = row(&db, first.lease.id).await;
    assert_eq!(sent, "SUCCESS_SENT 2 2 primary ACCEPTED code Accepted their-id tried finished");
    assert_eq!(db.outbox.renew(&[second.lease], 30 * SECOND).await.unwrap(), [(second.lease, Holding::Lost)]);
    // It may never tell what it had begun, so that stands in the history at once; if it does, it comes late in its turn.
    let kinds = |status: &MessageStatus| status.events.iter().map(|event| event.kind).collect::<Vec<_>>();
    let told = [EventKind::Takeover, EventKind::Takeover, EventKind::LateOutcome];
    assert_eq!(kinds(&status(&db, first.lease.id).await), told);
    let failed = settlement(&second, 1, vec![attempt("secondary", &[Class::Unavailable])]);
    assert_eq!(db.outbox.settle(&[failed]).await.unwrap(), [Settled::Late]);
    assert_eq!(row(&db, first.lease.id).await, sent);
}

#[tokio::test]
async fn whoever_holds_a_message_does_not_open_again_what_was_accepted_late() {
    use Class::{Accepted, Deferred, MessageRejected, OutcomeUnknown, RecipientRejected, Unavailable};
    // The second recipient is accepted late; then this is what the holder comes to.
    let table = [
        ([Unavailable, Unavailable], Status::RequiredResend),
        ([Deferred, Accepted], Status::RequiredResend),
        ([Accepted, Unavailable], Status::SuccessSent),
        ([RecipientRejected, OutcomeUnknown], Status::SuccessSent),
        ([MessageRejected, MessageRejected], Status::SuccessSent),
    ];
    for (classes, becomes) in table {
        let db = Database::new().await;
        let (first, second) = taken_over(&db, &Draft { recipients: 2, ..Draft::default() }).await;
        let late = settlement(&first, 2, vec![attempt("primary", &[Unavailable, Accepted])]);
        assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
        assert_eq!(status(&db, first.lease.id).await.status, Status::InProcess);

        let held = settlement(&second, 2, vec![attempt("secondary", &classes)]);
        assert_eq!(db.outbox.settle(&[held]).await.unwrap(), [Settled::Done]);
        let after = status(&db, first.lease.id).await;
        assert_eq!(after.status, becomes, "{classes:?}");
        let kinds: Vec<EventKind> = after.events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Takeover, EventKind::LateOutcome, EventKind::Attempt], "{classes:?}");
        let_pauses_pass(&db).await;
        let again = claim(&db.outbox, 10).await;
        let open: Vec<_> = again.into_iter().map(|one| (one.open, one.accepted_before)).collect();
        let left = (Some(vec![RecipientIndex(0)]), true);
        assert_eq!(open, if becomes == Status::RequiredResend { vec![left] } else { Vec::new() }, "{classes:?}");
    }
}

#[tokio::test]
async fn no_other_provider_is_asked_for_what_was_accepted_late() {
    use Class::{Accepted, RecipientRejected, Unavailable};
    let db = Database::new().await;
    let secondary = ProviderName::new("secondary");
    for (classes, open, left) in [
        ([Unavailable; 3], &[0, 1, 2][..], Some(vec![RecipientIndex(0), RecipientIndex(2)])),
        ([RecipientRejected, Unavailable, RecipientRejected], &[1], None),
    ] {
        let (first, second) = taken_over(&db, &Draft { recipients: 3, ..Draft::default() }).await;
        let late = settlement(&first, 3, vec![attempt("primary", &[Unavailable, Accepted, Unavailable])]);
        assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Late]);

        let tried = vec![attempt("primary", &classes)];
        let open: Vec<RecipientIndex> = open.iter().map(|&index| RecipientIndex(index)).collect();
        let held = db.outbox.hand_over(&second.lease, 2, &tried, &open, &secondary).await.unwrap();
        assert_eq!(held, Holding::Lost);
        let after = status(&db, first.lease.id).await;
        assert_eq!(after.status, if left.is_some() { Status::RequiredResend } else { Status::SuccessSent });
        assert_eq!(after.events.len(), 3, "the attempt is on record");

        // The rest is due at once, and goes on where it was.
        let again = claim(&db.outbox, 10).await;
        let asked: Vec<_> = again.iter().map(|one| (one.provider.as_str(), one.ask_first, one.open.clone())).collect();
        assert_eq!(asked, left.into_iter().map(|left| ("secondary", true, Some(left))).collect::<Vec<_>>());
        assert_eq!(db.outbox.settle(&[settlement(&second, 3, tried)]).await.unwrap(), [Settled::Done]);
        assert_eq!(status(&db, first.lease.id).await.events.len(), 3, "told once more, it is written once");
    }
}

#[tokio::test]
async fn two_late_outcomes_of_one_message_in_one_batch_end_it_once() {
    let db = Database::new().await;
    let (first, second) = taken_over(&db, &Draft::default()).await;
    let_leases_run_out(&db).await;
    let third = claim(&db.outbox, 10).await.remove(0);
    db.outbox.settle(&[settlement(&third, 1, vec![attempt("secondary", &[Class::OutcomeUnknown])])]).await.unwrap();
    let late = [
        settlement(&first, 1, vec![attempt("primary", &[Class::Accepted])]),
        settlement(&second, 1, vec![attempt("second", &[Class::Accepted])]),
    ];
    assert_eq!(db.outbox.settle(&late).await.unwrap(), [Settled::Late, Settled::Late]);
    assert_eq!(status(&db, first.lease.id).await.status, Status::SuccessSent);
    assert_eq!(db.count("event where status is not null").await, 1);
    assert_eq!(db.count("outbox").await, 1);
}

#[tokio::test]
async fn an_outcome_of_a_message_that_is_gone_is_told_so() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft::default()).await;
    db.execute("delete from pending; delete from message").await;
    let late = settlement(&claimed, 1, vec![attempt("primary", &[Class::Accepted])]);
    assert_eq!(db.outbox.settle(&[late]).await.unwrap(), [Settled::Gone]);
    assert_eq!(db.count("event").await, 0);
}

#[tokio::test]
async fn what_a_provider_said_may_hold_anything() {
    let db = Database::new().await;
    let claimed = claimed_one(&db, &Draft { recipients: 2, ..Draft::default() }).await;
    let mut odd = attempt("primary", &[Class::Deferred, Class::Accepted]);
    for (_, verdict) in &mut odd.outcome.verdicts {
        verdict.code = "5\u{0}5".into();
        verdict.detail = "it's \\ \"so\" \u{1f4ee} {,}\0".into();
    }
    odd.outcome.provider_message_id = Some("<a\0b>".into());
    db.outbox.settle(&[settlement(&claimed, 2, vec![odd])]).await.unwrap();
    let event = status(&db, claimed.lease.id).await.events.remove(0);
    assert_eq!(event.verdicts[1].1.detail, "it's \\ \"so\" \u{1f4ee} {,}\u{fffd}");
    assert_eq!(event.provider_message_id.as_deref(), Some("<a\u{fffd}b>"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settles_in_other_orders_do_not_lock_each_other_out() {
    let db = Database::new().await;
    let count = 60;
    Draft::default().accept(&db.outbox, count).await;
    for round in 0..10 {
        let_pauses_pass(&db).await;
        let claimed = claim(&db.outbox, count).await;
        assert_eq!(claimed.len(), count);
        let mut tasks = JoinSet::new();
        // Each has a part of its own, and all of them tell each other's late.
        for n in 0..6 {
            let mut batch: Vec<Settlement> =
                claimed.iter().map(|one| settlement_of(one, Vec::new(), waits(&db))).collect();
            batch.rotate_left((n * 7 + round) % count);
            if n % 2 == 1 {
                batch.reverse();
            }
            let outbox = db.outbox.clone();
            tasks.spawn(async move {
                let leases: Vec<_> = batch.iter().map(|settlement| settlement.lease).collect();
                outbox.renew(&leases, 30 * SECOND).await?;
                outbox.settle(&batch).await
            });
        }
        let results: Vec<Result<Vec<Settled>, OutboxError>> = tasks.join_all().await;
        let done = results.into_iter().flat_map(Result::unwrap).filter(|settled| *settled == Settled::Done).count();
        assert_eq!(done, count, "each is settled by one");
    }
    assert_eq!(db.deadlocks().await, 0);
}

fn waits(db: &Database) -> Next {
    Next::Again {
        status: Status::NotYetSent,
        due_at: db.outbox.clock().now(),
        open: vec![RecipientIndex(0)],
        round_spent: false,
        ask_first: None,
    }
}

#[tokio::test]
async fn statuses_are_counted_after_a_mixed_day() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 9).await;
    for (nth, one) in claim(&db.outbox, 8).await.iter().enumerate() {
        let class = Class::ALL[nth % 4];
        db.outbox.settle(&[settlement(one, 1, vec![attempt("primary", &[class])])]).await.unwrap();
    }
    let rows: Vec<(String, i64)> =
        sqlx::query_as("select status::text, count(*) from outbox group by 1").fetch_all(&db.sql).await.unwrap();
    let expected = [("FAILED_NOT_RETRYABLE", 6), ("NOT_YET_SENT", 1), ("SUCCESS_SENT", 2)];
    assert_eq!(
        rows.into_iter().collect::<BTreeMap<_, _>>(),
        expected.map(|(status, count)| (status.to_owned(), count)).into()
    );
}
