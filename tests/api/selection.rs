//! `RetryMessages` and `CancelMessages`.

use std::time::Duration;

use postrider::{
    delivery::{self, Class},
    message::MessageId,
    proto::v1::{
        CancelMessagesRequest, EventKind, GetStatusRequest, MessageFilter, MessageIds, MessageSelection,
        RetryMessagesRequest, SendEmailRequest, Status, UnknownOutcomePolicy, message_selection::Selection,
    },
};

use super::{
    client,
    messages::{operator, person, round, send},
    request, wrong_fields,
};
use crate::{
    outbox::claim,
    support::service::{Service, service},
};

fn ids(ids: &[&str]) -> Option<MessageSelection> {
    let message_ids = ids.iter().map(|&id| id.to_owned()).collect();
    Some(MessageSelection { selection: Some(Selection::Ids(MessageIds { message_ids })) })
}

fn matching(filter: MessageFilter) -> Option<MessageSelection> {
    Some(MessageSelection { selection: Some(Selection::Filter(filter)) })
}

/// How many would be tried again, which is how many then are.
async fn retry(service: &Service, selection: Option<MessageSelection>, include_outcome_unknown: bool) -> u64 {
    let mut operator = operator(service).await;
    let before = service.database.count("event").await;
    let request = RetryMessagesRequest { selection, dry_run: true, include_outcome_unknown };
    let would = operator.retry_messages(request.clone()).await.expect("counted").into_inner().count;
    assert_eq!(service.database.count("event").await, before, "nothing was done");
    let request = RetryMessagesRequest { dry_run: false, ..request };
    let did = operator.retry_messages(request).await.expect("done").into_inner().count;
    assert_eq!(did, would);
    assert_eq!(service.database.count("event").await, before + i64::try_from(did).expect("few"));
    service.database.tally_is_exact().await;
    did
}

/// How many would be called off, and may have been sent, which is how many then are.
async fn cancel(service: &Service, selection: Option<MessageSelection>) -> (u64, u64) {
    let mut operator = operator(service).await;
    let request = CancelMessagesRequest { selection, dry_run: true };
    let before = service.database.count("event").await;
    let would = operator.cancel_messages(request.clone()).await.expect("counted").into_inner();
    assert_eq!(service.database.count("event").await, before, "nothing was done");
    let request = CancelMessagesRequest { dry_run: false, ..request };
    let did = operator.cancel_messages(request).await.expect("done").into_inner();
    assert_eq!(did, would);
    service.database.tally_is_exact().await;
    (did.count, did.may_have_been_sent)
}

async fn status_of(service: &Service, id: &str) -> Status {
    told(service, id).await.0
}

async fn told(service: &Service, id: &str) -> (Status, Vec<EventKind>) {
    let asked = GetStatusRequest { message_id: id.to_owned() };
    let told = client(service).await.get_status(asked).await.expect("found").into_inner();
    (told.status(), told.events.iter().map(|event| event.kind()).collect())
}

/// One message in each status.
struct One {
    unsent: String,
    taken: String,
    again: String,
    refused: String,
    exhausted: String,
    unknown: String,
    expired: String,
    canceled: String,
    sent: String,
}

async fn one_of_each(service: &Service) -> One {
    let held = || SendEmailRequest { unknown_outcome_policy: UnknownOutcomePolicy::Hold.into(), ..request() };
    let sent = send(service, request()).await;
    round(service, "primary", Class::Accepted, None).await;
    let refused = send(service, request()).await;
    round(service, "primary", Class::MessageRejected, None).await;
    let exhausted = send(service, request()).await;
    round(service, "primary", Class::Unavailable, person(delivery::Status::FailedRetriesExhausted)).await;
    let unknown = send(service, held()).await;
    round(service, "primary", Class::OutcomeUnknown, None).await;
    let expired = send(service, request()).await;
    let late = delivery::Next::Finished(delivery::Status::Expired);
    round(service, "primary", Class::Unavailable, Some(late)).await;
    let canceled = send(service, request()).await;
    assert_eq!(cancel(service, ids(&[&canceled])).await, (1, 0));
    let again = send(service, request()).await;
    round(service, "primary", Class::Unavailable, None).await;
    let taken = send(service, request()).await;
    assert_eq!(claim(&service.database.outbox, 1).await.len(), 1);
    let unsent = send(service, request()).await;
    One { unsent, taken, again, refused, exhausted, unknown, expired, canceled, sent }
}

impl One {
    fn all(&self) -> [(&str, Status); 9] {
        [
            (&self.unsent, Status::NotYetSent),
            (&self.taken, Status::InProcess),
            (&self.again, Status::RequiredResend),
            (&self.refused, Status::FailedNotRetryable),
            (&self.exhausted, Status::FailedRetriesExhausted),
            (&self.unknown, Status::FailedOutcomeUnknown),
            (&self.expired, Status::Expired),
            (&self.canceled, Status::Canceled),
            (&self.sent, Status::SuccessSent),
        ]
    }
}

#[tokio::test]
async fn only_what_waits_for_a_person_is_tried_again() {
    let service = service().await;
    let one = one_of_each(&service).await;
    for (id, status) in one.all() {
        assert_eq!(status_of(&service, id).await, status);
        let is_retried = matches!(status, Status::FailedNotRetryable | Status::FailedRetriesExhausted);
        assert_eq!(retry(&service, ids(&[id, id]), false).await, u64::from(is_retried), "{status:?}");
        let expected = if is_retried { Status::RequiredResend } else { status };
        assert_eq!(status_of(&service, id).await, expected, "{status:?}");
    }
    assert_eq!(retry(&service, ids(&[&one.unknown]), true).await, 1);
    assert_eq!(
        told(&service, &one.unknown).await,
        (Status::RequiredResend, vec![EventKind::Attempt, EventKind::Retried])
    );
    let nobodys = MessageId::new_at(time::OffsetDateTime::now_utc()).to_string();
    assert_eq!(retry(&service, ids(&[&nobodys]), true).await, 0);
}

#[tokio::test]
async fn what_is_tried_again_has_all_its_rounds_and_its_time() {
    let service = service().await;
    let outbox = &service.database.outbox;
    let id = send(&service, request()).await;
    round(&service, "primary", Class::MessageRejected, None).await;
    service.database.execute("update pending set give_up_at = now(), rounds = 2").await;
    assert_eq!(retry(&service, ids(&[&id]), false).await, 1);
    let claimed = claim(outbox, 10).await;
    let [one] = &claimed[..] else { panic!("{claimed:?}") };
    assert_eq!((one.lease.id.to_string(), one.rounds, one.open.clone()), (id.clone(), 0, None));
    assert!(one.give_up_at > outbox.clock().now() + Duration::from_secs(24 * 3600));
    let accepted = crate::outbox::attempt("primary", &[Class::Accepted]);
    outbox.settle(&[crate::outbox::settlement(one, 1, vec![accepted])]).await.expect("settled");
    let history = vec![EventKind::Attempt, EventKind::Retried, EventKind::Attempt];
    assert_eq!(told(&service, &id).await, (Status::SuccessSent, history));
    service.database.tally_is_exact().await;
}

#[tokio::test]
async fn what_was_never_tried_is_so_again() {
    let service = service().await;
    let id = send(&service, request()).await;
    let claimed = claim(&service.database.outbox, 1).await.remove(0);
    let nobody = postrider::delivery::Next::Person {
        status: delivery::Status::FailedNotRetryable,
        open: vec![postrider::message::RecipientIndex(0)],
    };
    let usual = crate::outbox::settlement(&claimed, 1, vec![]);
    let settlement = postrider::outbox::Settlement { next: nobody, ..usual };
    service.database.outbox.settle(&[settlement]).await.expect("settled");
    assert_eq!(retry(&service, ids(&[&id]), false).await, 1);
    assert_eq!(status_of(&service, &id).await, Status::NotYetSent);
}

#[tokio::test]
async fn one_of_unknown_outcome_goes_first_to_who_may_have_it() {
    let service = service().await;
    let held = SendEmailRequest { unknown_outcome_policy: UnknownOutcomePolicy::Hold.into(), ..request() };
    let id = send(&service, held).await;
    round(&service, "second", Class::OutcomeUnknown, None).await;
    assert_eq!(retry(&service, ids(&[&id]), false).await, 0);
    assert_eq!(retry(&service, ids(&[&id]), true).await, 1);
    let claimed = claim(&service.database.outbox, 1).await.remove(0);
    assert_eq!(claimed.provider.as_str(), "second");
    assert_eq!(claimed.unknown_outcome, postrider::message::UnknownOutcome::Resend);
    assert!(claimed.unknown_since.is_some(), "nobody forgets that it may have been sent");
}

#[tokio::test]
async fn what_may_not_be_sent_is_not_tried_again() {
    let service = service().await;
    let (late, off) = (send(&service, request()).await, send(&service, request()).await);
    for _ in 0..2 {
        round(&service, "primary", Class::OutcomeUnknown, person(delivery::Status::FailedRetriesExhausted)).await;
    }
    service.database.execute(&format!("update pending set expire_at = now() where id = '{late}'")).await;
    assert_eq!(cancel(&service, ids(&[&off])).await, (1, 1));
    assert_eq!(status_of(&service, &off).await, Status::FailedOutcomeUnknown);
    assert_eq!(retry(&service, ids(&[&late, &off]), true).await, 0);
}

#[tokio::test]
async fn what_matches_is_tried_again_and_dispatchers_hear_of_it() {
    let service = service().await;
    one_of_each(&service).await;
    let of = |provider: &str| MessageFilter { provider: provider.into(), ..Default::default() };
    assert_eq!(retry(&service, matching(of("other")), true).await, 0);
    let sent = MessageFilter { statuses: vec![Status::SuccessSent.into()], ..Default::default() };
    assert_eq!(retry(&service, matching(sent), true).await, 0);
    let exhausted = MessageFilter { statuses: vec![Status::FailedRetriesExhausted.into()], ..of("primary") };
    service.wake.take();
    assert_eq!(retry(&service, matching(exhausted), false).await, 1);
    assert_eq!(service.wake.take().now.len(), 1, "its lane");
    assert_eq!(retry(&service, matching(of("primary")), false).await, 1, "the one that was refused");
    assert_eq!(retry(&service, matching(MessageFilter::default()), true).await, 1, "the one of unknown outcome");
}

#[tokio::test]
async fn more_than_a_batch_is_gone_through() {
    let service = service().await;
    crate::outbox::Draft::default().accept(&service.database.outbox, 1_500).await;
    let failed = "update pending set status = 'FAILED_RETRIES_EXHAUSTED', failed_at = now(), due_at = null";
    service.database.execute(failed).await;
    let moved = "insert into tally (day, status, n) select day_of(id), v.status, v.n from pending,
        (values ('NOT_YET_SENT'::status, -1), ('FAILED_RETRIES_EXHAUSTED'::status, 1)) as v (status, n)";
    service.database.execute(moved).await;
    assert_eq!(retry(&service, matching(MessageFilter::default()), false).await, 1_500);
    assert_eq!(service.database.count("pending where status = 'NOT_YET_SENT'").await, 1_500);
    assert_eq!(cancel(&service, matching(MessageFilter::default())).await, (1_500, 0));
}

#[tokio::test]
async fn what_is_not_finished_is_called_off() {
    let service = service().await;
    let one = one_of_each(&service).await;
    for (id, status) in one.all() {
        let expected = match status {
            Status::InProcess => (1, 1),
            Status::NotYetSent
            | Status::RequiredResend
            | Status::FailedNotRetryable
            | Status::FailedRetriesExhausted => (1, 0),
            _ => (0, 0),
        };
        assert_eq!(cancel(&service, ids(&[id])).await, expected, "{status:?}");
    }
    assert_eq!(cancel(&service, matching(MessageFilter::default())).await, (1, 1), "the one that is taken still is");
}

#[tokio::test]
async fn a_selection_of_nothing_and_what_is_no_id_are_refused() {
    let service = service().await;
    let mut operator = operator(&service).await;
    let many = vec!["x"; 1_001];
    let cases = [
        (None, "selection"),
        (Some(MessageSelection::default()), "selection"),
        (ids(&[]), "selection.ids.message_ids"),
        (ids(&many), "selection.ids.message_ids"),
        (ids(&["nonsense"]), "selection.ids.message_ids[0]"),
        (matching(MessageFilter { statuses: vec![77], ..Default::default() }), "selection.filter.statuses[0]"),
    ];
    for (selection, field) in cases {
        let request = RetryMessagesRequest { selection: selection.clone(), ..Default::default() };
        let status = operator.retry_messages(request).await.expect_err("refused");
        assert_eq!(wrong_fields(&status), [field]);
        let status =
            operator.cancel_messages(CancelMessagesRequest { selection, dry_run: false }).await.expect_err("refused");
        assert_eq!(wrong_fields(&status), [field]);
    }
}
