//! `GetStatus`.

use std::time::{Duration, SystemTime};

use postrider::{
    message::MessageId,
    proto::v1::{GetStatusRequest, GetStatusResponse, RecipientState, SendEmailRequest, Status},
};
use tonic::Code;

use super::{client, mailbox, refused, request, with_metadata, wrong_fields};
use crate::support::service::{Service, service};

fn ask(message_id: impl ToString) -> GetStatusRequest {
    GetStatusRequest { message_id: message_id.to_string() }
}

/// Sends a request with that metadata, and asks where it stands.
async fn told(
    service: &Service,
    request: SendEmailRequest,
    metadata: &[(&'static str, &'static str)],
) -> GetStatusResponse {
    let mut client = client(service).await;
    let sent = client.send_email(with_metadata(request, metadata)).await.expect("accepted").into_inner();
    client.get_status(ask(sent.message_id)).await.expect("found").into_inner()
}

#[tokio::test]
async fn a_new_message_tells_what_is_known_of_it() {
    let service = service().await;
    let mut request = request();
    request.correlation_id = "order 4711".into();
    let email = request.email.as_mut().expect("an email");
    email.cc = vec![mailbox("cc@example.com", "")];
    email.bcc = vec![mailbox("hidden@münchen.example", "")];
    email.document_type = "INVOICE".into();
    let told = told(&service, request, &[("x-correlation-id", "not this one")]).await;

    assert_eq!(told.status(), Status::NotYetSent);
    assert!(told.accepted_at.is_some());
    assert_eq!(told.next_attempt_at, told.accepted_at, "due at once");
    assert_eq!((told.finished_at, told.rounds, told.events.len()), (None, 0, 0));
    assert_eq!((told.correlation_id.as_str(), told.document_type.as_str()), ("order 4711", "INVOICE"));
    assert_eq!(told.waiting_for, "a free dispatcher");
    let recipients: Vec<_> = told.recipients.iter().map(|r| (r.address.as_str(), r.state())).collect();
    let open = RecipientState::Open;
    assert_eq!(
        recipients,
        [("ada@example.com", open), ("cc@example.com", open), ("hidden@xn--mnchen-3ya.example", open)]
    );
}

#[tokio::test]
async fn the_correlation_id_comes_from_the_call_where_the_request_names_none() {
    let service = service().await;
    let trace = ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let cases: [(&[(&'static str, &'static str)], &str); 4] = [
        (&[("x-correlation-id", "c-1"), ("x-request-id", "r-1"), trace], "c-1"),
        (&[("x-request-id", "r-1"), trace], "r-1"),
        (&[trace], "4bf92f3577b34da6a3ce929d0e0e4736"),
        (&[("x-correlation-id", " "), trace], "4bf92f3577b34da6a3ce929d0e0e4736"),
    ];
    for (metadata, expected) in cases {
        assert_eq!(told(&service, request(), metadata).await.correlation_id, expected, "{metadata:?}");
    }
    assert_ne!(told(&service, request(), &[]).await.correlation_id, "", "never without one");
}

#[tokio::test]
async fn what_is_to_be_sent_later_waits_for_its_time() {
    let service = service().await;
    let send_at = prost_types::Timestamp::from(SystemTime::now() + Duration::from_secs(3600));
    let told = told(&service, SendEmailRequest { send_at: Some(send_at), ..request() }, &[]).await;
    assert_eq!(told.next_attempt_at.map(|at| at.seconds), Some(send_at.seconds));
    assert!(told.waiting_for.starts_with("its scheduled time, 20"), "{}", told.waiting_for);
}

#[tokio::test]
async fn a_time_to_send_that_has_passed_means_now() {
    let service = service().await;
    let send_at = prost_types::Timestamp { seconds: 1_000_000_000, nanos: 0 };
    let told = told(&service, SendEmailRequest { send_at: Some(send_at), ..request() }, &[]).await;
    assert_eq!(told.next_attempt_at, told.accepted_at);
}

#[tokio::test]
async fn a_client_sees_only_its_own_messages() {
    let service = service().await;
    let mut client = client(&service).await;
    let orders = [("x-client-id", "orders")];
    let id = client.send_email(with_metadata(request(), &orders)).await.expect("accepted").into_inner().message_id;
    assert!(client.get_status(with_metadata(ask(&id), &orders)).await.is_ok());

    let strangers: [&[(&'static str, &'static str)]; 2] = [&[], &[("x-client-id", "billing")]];
    for stranger in strangers {
        let status = client.get_status(with_metadata(ask(&id), stranger)).await.expect_err("not theirs");
        let details = refused(&status, Code::NotFound, "MESSAGE_NOT_FOUND");
        assert_eq!(details.resource_info().expect("ResourceInfo").resource_name, id);
    }
}

#[tokio::test]
async fn ids_that_lead_nowhere_say_why() {
    let service = service().await;
    let mut client = client(&service).await;
    for nonsense in ["", "nonsense", "00000000-0000-0000-0000-000000000000", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"] {
        let status = client.get_status(ask(nonsense)).await.expect_err("not an id");
        assert_eq!(wrong_fields(&status), ["message_id"], "{nonsense:?}");
    }

    let day = Duration::from_secs(24 * 60 * 60);
    let now = time::OffsetDateTime::now_utc();
    let cases = [
        (now, "MESSAGE_NOT_FOUND"),
        (now - 6 * day, "MESSAGE_NOT_FOUND"),
        (now - 8 * day, "RETENTION_PASSED"),
        (now + day, "MESSAGE_NOT_FOUND"),
    ];
    for (time, reason) in cases {
        let status = client.get_status(ask(MessageId::new_at(time))).await.expect_err("no such message");
        refused(&status, Code::NotFound, reason);
    }
}
