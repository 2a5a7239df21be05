//! `CancelEmail`.

use std::time::{Duration, SystemTime};

use postrider::{
    delivery::Class,
    message::MessageId,
    outbox::Settled,
    proto::v1::{CancelEmailRequest, EventKind, GetStatusRequest, SendEmailRequest, Status},
};
use tonic::Code;

use super::{client, refused, request, with_metadata, wrong_fields};
use crate::{
    outbox::{attempt, claim, settlement},
    support::service::{Service, service, service_without_database},
};

fn off(message_id: impl ToString) -> CancelEmailRequest {
    CancelEmailRequest { message_id: message_id.to_string() }
}

async fn send(service: &Service, request: SendEmailRequest) -> String {
    client(service).await.send_email(request).await.expect("accepted").into_inner().message_id
}

async fn cancel(service: &Service, id: &str) -> (Status, bool) {
    let answer = client(service).await.cancel_email(off(id)).await.expect("answered").into_inner();
    (answer.status(), answer.may_have_been_sent)
}

/// Where it stands, and the kinds of its history.
async fn told(service: &Service, id: &str) -> (Status, Vec<EventKind>) {
    let asked = GetStatusRequest { message_id: id.to_owned() };
    let told = client(service).await.get_status(asked).await.expect("found").into_inner();
    (told.status(), told.events.iter().map(|event| event.kind()).collect())
}

/// Sends once, with that outcome.
async fn round(service: &Service, class: Class) {
    let outbox = &service.database.outbox;
    let claimed = claim(outbox, 1).await.remove(0);
    let settled = outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[class])])]).await;
    assert_eq!(settled.expect("settled"), [Settled::Done]);
}

#[tokio::test]
async fn what_waits_is_canceled_and_stays_so() {
    let service = service().await;
    let send_at = Some(prost_types::Timestamp::from(SystemTime::now() + Duration::from_secs(3600)));
    let later = send(&service, SendEmailRequest { send_at, ..request() }).await;
    let now = send(&service, request()).await;
    for id in [later, now] {
        for _ in 0..2 {
            assert_eq!(cancel(&service, &id).await, (Status::Canceled, false));
            assert_eq!(told(&service, &id).await, (Status::Canceled, vec![EventKind::Canceled]));
        }
    }
    assert!(claim(&service.database.outbox, 10).await.is_empty());
    service.database.tally_is_exact().await;
}

#[tokio::test]
async fn the_answer_says_whether_it_may_have_been_sent() {
    let service = service().await;
    let taken = send(&service, request()).await;
    let claimed = claim(&service.database.outbox, 1).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(cancel(&service, &taken).await, (Status::InProcess, true));
    assert_eq!(told(&service, &taken).await, (Status::InProcess, vec![]));

    let cases = [
        (Class::Unavailable, (Status::Canceled, false)),
        (Class::OutcomeUnknown, (Status::FailedOutcomeUnknown, true)),
        (Class::MessageRejected, (Status::Canceled, false)),
        (Class::Accepted, (Status::SuccessSent, true)),
    ];
    for (class, expected) in cases {
        let id = send(&service, request()).await;
        round(&service, class).await;
        for _ in 0..2 {
            assert_eq!(cancel(&service, &id).await, expected, "{class:?}");
        }
    }
}

#[tokio::test]
async fn ids_that_lead_nowhere_say_why() {
    let service = service().await;
    let mut client = client(&service).await;
    for nonsense in ["", "nonsense", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"] {
        let status = client.cancel_email(off(nonsense)).await.expect_err("not an id");
        assert_eq!(wrong_fields(&status), ["message_id"], "{nonsense:?}");
    }
    let now = time::OffsetDateTime::now_utc();
    let cases = [(now, "MESSAGE_NOT_FOUND"), (now - Duration::from_secs(9 * 24 * 3600), "RETENTION_PASSED")];
    for (time, reason) in cases {
        let status = client.cancel_email(off(MessageId::new_at(time))).await.expect_err("no such message");
        refused(&status, Code::NotFound, reason);
    }
}

#[tokio::test]
async fn a_client_calls_off_only_its_own() {
    let service = service().await;
    let mut client = client(&service).await;
    let orders = with_metadata(request(), &[("x-client-id", "orders")]);
    let id = client.send_email(orders).await.expect("accepted").into_inner().message_id;
    for stranger in [with_metadata(off(&id), &[]), with_metadata(off(&id), &[("x-client-id", "billing")])] {
        let status = client.cancel_email(stranger).await.expect_err("not theirs");
        refused(&status, Code::NotFound, "MESSAGE_NOT_FOUND");
    }
    assert_eq!(service.database.count("pending where status = 'NOT_YET_SENT'").await, 1);
    let theirs = client.cancel_email(with_metadata(off(&id), &[("x-client-id", "orders")])).await.expect("theirs");
    assert_eq!(theirs.into_inner().status(), Status::Canceled);
}

#[tokio::test]
async fn without_the_database_nothing_is_called_off() {
    let service = service_without_database().await;
    let id = MessageId::new_at(time::OffsetDateTime::now_utc());
    let status = client(&service).await.cancel_email(off(id)).await.expect_err("not called off");
    refused(&status, Code::Unavailable, "DATABASE_UNAVAILABLE");
}
