//! What is refused, and how the caller is told.

use postrider::proto::v1::{
    Attachment, EraseMessagesRequest, GetStatusRequest, SendEmailRequest,
    operator_service_client::OperatorServiceClient,
};
use prost_types::Timestamp;
use tonic::{Code, Status, codec::CompressionEncoding};

use super::{client, mailbox, refused, request, with_metadata, wrong_fields};
use crate::support::service::{service, service_with, service_without_database};

#[tokio::test]
async fn everything_that_is_wrong_is_named_at_once() {
    let service = service().await;
    let mut request = request();
    let email = request.email.as_mut().expect("an email");
    email.to.push(mailbox("nobody", ""));
    email.subject = "one\r\nBcc: two@example.com".into();
    request.expire_at = Some(Timestamp { seconds: 1, nanos: 0 });
    request.priority = 77;
    request.correlation_id = "line\nbreak".into();
    let status = client(&service).await.send_email(request).await.expect_err("refused");
    let mut fields = wrong_fields(&status);
    fields.sort();
    assert_eq!(fields, ["correlation_id", "email.subject", "email.to[1].address", "expire_at", "priority"]);
    assert!(!status.message().contains("two@example.com"), "{}", status.message());
}

#[tokio::test]
async fn an_empty_request_is_refused() {
    let service = service().await;
    let status = client(&service).await.send_email(SendEmailRequest::default()).await.expect_err("refused");
    assert_eq!(wrong_fields(&status), ["email"]);
}

#[tokio::test]
async fn more_violations_than_fit_still_arrive() {
    let service = service_with(|settings| settings.policy.max_recipients = 1_500).await;
    let mut request = request();
    request.email.as_mut().expect("an email").to = (0..1_500).map(|_| mailbox("nobody", "")).collect();
    let status = client(&service).await.send_email(request).await.expect_err("refused");
    assert!(wrong_fields(&status).len() > 20);
    let details = refused(&status, Code::InvalidArgument, "INVALID_REQUEST");
    let count: usize = details.error_info().expect("ErrorInfo").metadata["violations"].parse().expect("a number");
    // The policy lists 1,000 and says how many there are beyond.
    assert_eq!(count, 1001);
}

#[tokio::test]
async fn a_client_name_that_cannot_be_is_refused() {
    let service = service().await;
    let mut client = client(&service).await;
    let nameless = [("x-client-id", "two words")];
    let status = client.send_email(with_metadata(request(), &nameless)).await.expect_err("refused");
    assert_eq!(wrong_fields(&status), ["x-client-id"]);
    let status = client.get_status(with_metadata(GetStatusRequest::default(), &nameless)).await.expect_err("refused");
    assert_eq!(wrong_fields(&status), ["x-client-id"]);
}

/// A request of 60 MB, which compresses to little.
fn sixty_megabytes() -> SendEmailRequest {
    let mut request = request();
    let content = vec![b'a'; 60 * 1024 * 1024].into();
    let attachment = Attachment { filename: "a.txt".into(), content, ..Default::default() };
    request.email.as_mut().expect("an email").attachments = vec![attachment];
    request
}

#[tokio::test]
async fn sixty_megabytes_are_refused_with_the_limit() {
    let service = service().await;
    let mut plain = client(&service).await;
    let mut compressed = plain.clone().send_compressed(CompressionEncoding::Gzip);
    for client in [&mut plain, &mut compressed] {
        let status = client.send_email(sixty_megabytes()).await.expect_err("too large");
        let details = refused(&status, Code::OutOfRange, "REQUEST_TOO_LARGE");
        let limit = (40 * 1024 * 1024).to_string();
        assert_eq!(details.error_info().expect("ErrorInfo").metadata["limit_bytes"], limit);
        assert!(status.message().contains(&limit), "{}", status.message());
    }
    plain.send_email(request()).await.expect("the connection goes on");
}

#[tokio::test]
async fn without_a_database_the_caller_is_asked_to_come_again() {
    let service = service_without_database().await;
    let mut client = client(&service).await;
    let id = "0190163d-8694-739b-aea5-966c26f8ad91".to_owned();
    let refusals = [
        client.send_email(request()).await.expect_err("not accepted"),
        client.get_status(GetStatusRequest { message_id: id }).await.expect_err("not known"),
    ];
    for status in refusals {
        let details = refused(&status, Code::Unavailable, "DATABASE_UNAVAILABLE");
        assert!(details.retry_info().expect("RetryInfo").retry_delay.is_some());
    }
}

#[tokio::test]
async fn an_invalid_repeat_is_not_called_invalid_while_nobody_can_know() {
    let service = service_without_database().await;
    let request = SendEmailRequest { idempotency_key: "invoice-1".into(), ..Default::default() };
    let status = client(&service).await.send_email(request).await.expect_err("not known");
    refused(&status, Code::Unavailable, "DATABASE_UNAVAILABLE");
}

#[track_caller]
fn missing<T: std::fmt::Debug>(answer: Result<T, Status>, call: &str) {
    let status = answer.expect_err("not there");
    let details = refused(&status, Code::Unimplemented, "CALL_NOT_IMPLEMENTED");
    assert_eq!(details.error_info().expect("ErrorInfo").metadata["method"], call);
    assert!(status.message().contains(call));
}

#[tokio::test]
async fn calls_of_later_versions_say_that_they_are_missing() {
    let service = service().await;
    let mut operator = OperatorServiceClient::new(service.channel().await);
    missing(operator.erase_messages(EraseMessagesRequest::default()).await, "EraseMessages");
}
