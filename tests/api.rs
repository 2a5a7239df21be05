//! The API as a client sees it, over real gRPC.

mod batch;
mod cancel;
mod messages;
mod overview;
mod refusals;
mod selection;
mod send;
mod server;
mod status;
mod statuses;
mod watch;

use postrider::proto::v1::{Email, Mailbox, SendEmailRequest, email_service_client::EmailServiceClient};
use tonic::{Code, Request, Status, metadata::AsciiMetadataValue, transport::Channel};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::support::service::Service;

async fn client(service: &Service) -> EmailServiceClient<Channel> {
    EmailServiceClient::new(service.channel().await)
}

fn mailbox(address: &str, name: &str) -> Mailbox {
    Mailbox { address: address.into(), name: name.into() }
}

/// A request that the default settings admit.
fn request() -> SendEmailRequest {
    SendEmailRequest {
        email: Some(Email {
            from: Some(mailbox("billing@example.com", "Billing")),
            to: vec![mailbox("ada@example.com", "Ada")],
            subject: "Invoice 4711".into(),
            text: "Enclosed.".into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn keyed(key: &str) -> SendEmailRequest {
    SendEmailRequest { idempotency_key: key.into(), ..request() }
}

fn with_metadata<T>(message: T, pairs: &[(&'static str, &'static str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in pairs {
        request.metadata_mut().append(*name, AsciiMetadataValue::from_static(value));
    }
    request
}

/// The details of a refusal, which must have that code and that reason.
#[track_caller]
fn refused(status: &Status, code: Code, reason: &str) -> ErrorDetails {
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("ErrorInfo");
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("postrider", reason));
    details
}

/// The fields that a refusal names.
#[track_caller]
fn wrong_fields(status: &Status) -> Vec<String> {
    let details = refused(status, Code::InvalidArgument, "INVALID_REQUEST");
    details.bad_request().expect("BadRequest").field_violations.iter().map(|v| v.field.clone()).collect()
}
