//! Errors as callers see them: a gRPC code, a stable reason, and the details of `google.rpc`.
//!
//! Owns no decision about what is an error. The words for a caller never repeat what a database said.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use crate::{message::MessageId, outbox::OutboxError, policy::Violation};

/// The domain of every [`Reason`] in `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "postrider";

/// Why a call failed, as `google.rpc.ErrorInfo.reason`: stable, for programs. The contract lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Something is wrong with the request.
    InvalidRequest,
    /// The request is larger than `server.max_request_bytes`.
    RequestTooLarge,
    /// The idempotency key was used for another request.
    IdempotencyKeyReused,
    /// This client has no such message.
    MessageNotFound,
    /// The id is older than finished messages are kept.
    RetentionPassed,
    /// The database cannot be reached.
    DatabaseUnavailable,
    /// The caller's deadline, or the server's own, passed.
    DeadlinePassed,
    /// This version does not have the call.
    CallNotImplemented,
    /// A fault of Postrider's.
    InternalError,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 9] = [
        Reason::InvalidRequest,
        Reason::RequestTooLarge,
        Reason::IdempotencyKeyReused,
        Reason::MessageNotFound,
        Reason::RetentionPassed,
        Reason::DatabaseUnavailable,
        Reason::DeadlinePassed,
        Reason::CallNotImplemented,
        Reason::InternalError,
    ];

    /// The word in `ErrorInfo.reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidRequest => "INVALID_REQUEST",
            Reason::RequestTooLarge => "REQUEST_TOO_LARGE",
            Reason::IdempotencyKeyReused => "IDEMPOTENCY_KEY_REUSED",
            Reason::MessageNotFound => "MESSAGE_NOT_FOUND",
            Reason::RetentionPassed => "RETENTION_PASSED",
            Reason::DatabaseUnavailable => "DATABASE_UNAVAILABLE",
            Reason::DeadlinePassed => "DEADLINE_PASSED",
            Reason::CallNotImplemented => "CALL_NOT_IMPLEMENTED",
            Reason::InternalError => "INTERNAL_ERROR",
        }
    }

    /// The gRPC code that goes with it.
    pub fn code(self) -> Code {
        match self {
            Reason::InvalidRequest => Code::InvalidArgument,
            Reason::RequestTooLarge => Code::OutOfRange,
            Reason::IdempotencyKeyReused => Code::AlreadyExists,
            Reason::MessageNotFound | Reason::RetentionPassed => Code::NotFound,
            Reason::DatabaseUnavailable => Code::Unavailable,
            Reason::DeadlinePassed => Code::DeadlineExceeded,
            Reason::CallNotImplemented => Code::Unimplemented,
            Reason::InternalError => Code::Internal,
        }
    }

    fn status<const N: usize>(
        self,
        message: impl Into<String>,
        mut details: ErrorDetails,
        metadata: [(&str, String); N],
    ) -> Status {
        let metadata: HashMap<String, String> = metadata.into_iter().map(|(key, value)| (key.into(), value)).collect();
        details.set_error_info(self.as_str(), DOMAIN, metadata);
        Status::with_error_details(self.code(), message, details)
    }
}

/// The most bytes of violations in one answer, before base64. Details travel in HTTP/2 headers, and grpc-java refuses
/// more than 8 KiB of them by default: the caller would then see an error of its own library instead of ours.
const VIOLATIONS_LIMIT: usize = 4_000;

/// The most bytes of one violation's field, and of its description: either may quote the request.
const WORDS_LIMIT: usize = 200;

/// The most bytes of an answer's message, which travels in a header too.
const MESSAGE_LIMIT: usize = 500;

const INTERNAL_WORDS: &str = "an internal error, which is in the server's log";

/// A request with something wrong in it: every violation that fits.
pub(super) fn invalid_request(violations: Vec<Violation>) -> Status {
    let count = violations.len();
    let mut message = match count {
        1 => "the request is invalid: ".to_owned(),
        _ => format!("the request has {count} violations: "),
    };
    let words: Vec<String> = violations.iter().map(|v| format!("{}: {}", v.field, v.description)).collect();
    message.push_str(&words.join("; "));

    let mut room = VIOLATIONS_LIMIT;
    let fitting: Vec<FieldViolation> = violations
        .into_iter()
        .map(|violation| (cut(violation.field, WORDS_LIMIT), cut(violation.description, WORDS_LIMIT)))
        .map_while(|(field, description)| {
            room = room.checked_sub(field.len() + description.len() + VIOLATION_FRAME)?;
            Some(FieldViolation::new(field, description))
        })
        .collect();
    let details = ErrorDetails::with_bad_request(fitting);
    Reason::InvalidRequest.status(cut(message, MESSAGE_LIMIT), details, [("violations", count.to_string())])
}

/// The most that the tags and lengths of one violation take on the wire.
const VIOLATION_FRAME: usize = 9;

/// The text, cut to that many bytes if it is longer.
fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}

/// A request with one thing wrong in it.
pub(super) fn invalid_field(field: &str, description: impl Into<String>) -> Status {
    invalid_request(vec![Violation { field: field.to_owned(), description: description.into() }])
}

/// A request larger than the limit.
pub(super) fn request_too_large(limit_bytes: usize) -> Status {
    let message = format!("the request is larger than the limit of {limit_bytes} bytes");
    Reason::RequestTooLarge.status(message, ErrorDetails::new(), [("limit_bytes", limit_bytes.to_string())])
}

/// A key that was used for another request, whose message is `id`.
pub(super) fn key_reused(id: MessageId) -> Status {
    let message = format!("the idempotency_key was used for another request, which is message {id}");
    let details = about_message(id, "the message of the idempotency_key");
    Reason::IdempotencyKeyReused.status(message, details, [("message_id", id.to_string())])
}

/// No such message of this client.
pub(super) fn message_not_found(id: MessageId) -> Status {
    let details = about_message(id, "this client has no such message");
    Reason::MessageNotFound.status(format!("there is no message {id} of this client"), details, [])
}

/// An id that is older than finished messages are kept.
pub(super) fn retention_passed(id: MessageId, kept: Duration) -> Status {
    let hours = kept.as_secs() / 3600;
    let words = format!("finished messages are kept for {hours} hours, and message {id} is older");
    let details = about_message(id, "no longer kept, if it ever was");
    Reason::RetentionPassed.status(words, details, [])
}

/// A call that took longer than it was given.
pub(super) fn deadline_passed() -> Status {
    let message = "the deadline passed before the answer was there; what was being accepted may have been";
    Reason::DeadlinePassed.status(message, ErrorDetails::new(), [])
}

/// A call that this version does not have.
pub(super) fn call_not_implemented(method: &str) -> Status {
    let message = format!("{method} is not implemented in this version");
    Reason::CallNotImplemented.status(message, ErrorDetails::new(), [("method", method.to_owned())])
}

/// Something of ours went wrong. The words are ours alone; what happened goes to the log, here and once.
fn internal(error: &OutboxError) -> Status {
    tracing::error!(error = %error, "a call failed by our own fault");
    Reason::InternalError.status(INTERNAL_WORDS, ErrorDetails::new(), [])
}

/// A task of ours ended without an answer. What it panicked with may quote the message, so that is not repeated.
pub(super) fn panicked() -> Status {
    tracing::error!("a task of a call ended without an answer");
    Reason::InternalError.status(INTERNAL_WORDS, ErrorDetails::new(), [])
}

/// What the outbox could not do.
pub(super) fn outbox(error: &OutboxError) -> Status {
    match error {
        OutboxError::Unavailable(_) => {
            tracing::debug!(error = %error, "a call waits for the database");
            let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
            Reason::DatabaseUnavailable.status("the database is not available; repeat the call", details, [])
        }
        OutboxError::Refused(_) | OutboxError::Unreadable(_) | OutboxError::NewerVersion { .. } => internal(error),
    }
}

/// How long a caller is asked to wait while the database is away.
const RETRY_DELAY: Duration = Duration::from_secs(1);

fn about_message(id: MessageId, description: &str) -> ErrorDetails {
    ErrorDetails::with_resource_info("message", id.to_string(), "", description)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MessageId {
        "0190163d-8694-739b-aea5-966c26f8ad91".parse().expect("an id")
    }

    fn many(count: usize) -> Vec<Violation> {
        (0..count)
            .map(|i| Violation { field: format!("email.to[{i}].address"), description: "has no \"@\"".into() })
            .collect()
    }

    #[test]
    fn every_reason_is_in_the_contract_with_its_code() {
        let contract = include_str!("../../proto/postrider/v1/email_service.proto");
        for reason in Reason::ALL {
            let code = format!("{:?}", reason.code());
            let code = code.chars().enumerate().fold(String::new(), |word, (i, c)| {
                let gap = if i > 0 && c.is_uppercase() { "_" } else { "" };
                word + gap + &c.to_uppercase().to_string()
            });
            let line = format!("// - {} ({code}):", reason.as_str());
            assert!(contract.contains(&line), "the contract lacks {line:?}");
        }
    }

    #[test]
    fn each_status_carries_its_reason_and_details() {
        let refused = OutboxError::Refused("secret@example.com".into());
        let cases = [
            (invalid_field("message_id", "is not a UUID"), Code::InvalidArgument, "INVALID_REQUEST"),
            (request_too_large(1000), Code::OutOfRange, "REQUEST_TOO_LARGE"),
            (key_reused(id()), Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED"),
            (message_not_found(id()), Code::NotFound, "MESSAGE_NOT_FOUND"),
            (retention_passed(id(), Duration::from_secs(3600)), Code::NotFound, "RETENTION_PASSED"),
            (outbox(&OutboxError::Unavailable("refused".into())), Code::Unavailable, "DATABASE_UNAVAILABLE"),
            (outbox(&refused), Code::Internal, "INTERNAL_ERROR"),
            (outbox(&OutboxError::Unreadable("damaged".into())), Code::Internal, "INTERNAL_ERROR"),
            (deadline_passed(), Code::DeadlineExceeded, "DEADLINE_PASSED"),
            (call_not_implemented("CancelEmail"), Code::Unimplemented, "CALL_NOT_IMPLEMENTED"),
        ];
        for (status, code, reason) in cases {
            assert_eq!(status.code(), code, "{status:?}");
            let details = status.get_error_details();
            let info = details.error_info().expect("ErrorInfo");
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "postrider"));
            assert_eq!(details.retry_info().is_some(), code == Code::Unavailable, "{reason}");
            assert_eq!(details.bad_request().is_some(), code == Code::InvalidArgument, "{reason}");
            let names_message = matches!(code, Code::AlreadyExists | Code::NotFound);
            assert_eq!(
                details.resource_info().map(|r| r.resource_name.clone()),
                names_message.then(|| id().to_string())
            );
            assert!(!status.message().contains("secret@example.com"));
        }
    }

    #[test]
    fn every_violation_is_named() {
        let status = invalid_request(many(20));
        let details = status.get_error_details();
        let named = &details.bad_request().expect("BadRequest").field_violations;
        assert_eq!(named.len(), 20);
        assert_eq!(named[19].field, "email.to[19].address");
        assert_eq!(named[19].description, "has no \"@\"");
        assert!(status.message().starts_with("the request has 20 violations: email.to[0].address: has no \"@\"; "));
    }

    #[test]
    fn violations_never_outgrow_the_headers_of_an_answer() {
        let wordy = |i| Violation { field: format!("email.metadata[{i}]"), description: "я".repeat(5_000) };
        for violations in [many(1000), (0..1000).map(wordy).collect(), vec![wordy(0)]] {
            let count = violations.len();
            let status = invalid_request(violations);
            let details = status.get_error_details();
            let named = details.bad_request().expect("BadRequest").field_violations.len();
            assert!((15..=300).contains(&named) || (named, count) == (1, 1), "{named} of {count} violations");
            assert_eq!(details.error_info().expect("ErrorInfo").metadata["violations"], count.to_string());

            let response = status.into_http::<()>();
            let sizes = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
            let bytes: usize = sizes.sum();
            assert!(bytes < 8 * 1024, "{bytes} bytes of headers for {count} violations");
        }
    }
}
