//! Errors as callers see them: a gRPC code, a stable reason, and the details of `google.rpc`.
//!
//! Owns no decision about what is an error. The words for a caller never repeat what a database said.

use std::{collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use crate::{
    message::MessageId,
    outbox::{IntakeError, OutboxError},
    policy::Violation,
    proto::v1 as pb,
};

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
    /// Callers are quicker than the database.
    Overloaded,
    /// As many watch as the limit allows.
    TooManyWatchers,
    /// The process stops.
    Stopping,
    /// The caller's deadline, or the server's own, passed.
    DeadlinePassed,
    /// This version does not have the call.
    CallNotImplemented,
    /// A fault of Postrider's.
    InternalError,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 12] = [
        Reason::InvalidRequest,
        Reason::RequestTooLarge,
        Reason::IdempotencyKeyReused,
        Reason::MessageNotFound,
        Reason::RetentionPassed,
        Reason::DatabaseUnavailable,
        Reason::Overloaded,
        Reason::TooManyWatchers,
        Reason::Stopping,
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
            Reason::Overloaded => "OVERLOADED",
            Reason::TooManyWatchers => "TOO_MANY_WATCHERS",
            Reason::Stopping => "STOPPING",
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
            Reason::DatabaseUnavailable | Reason::Stopping => Code::Unavailable,
            Reason::Overloaded | Reason::TooManyWatchers => Code::ResourceExhausted,
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

/// A request that is no message of the contract: no field can be named.
pub(super) fn unreadable_request() -> Status {
    let message = "the request is invalid: its bytes are not a message of the contract";
    Reason::InvalidRequest.status(message, ErrorDetails::with_bad_request(Vec::new()), [("violations", "1".to_owned())])
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
        OutboxError::Unavailable(_) | OutboxError::NotSetUp(_) => {
            tracing::debug!(error = %error, "a call waits for the database");
            let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
            Reason::DatabaseUnavailable.status("the database is not available; repeat the call", details, [])
        }
        OutboxError::Refused(_) | OutboxError::Unreadable(_) | OutboxError::NewerVersion { .. } => internal(error),
    }
}

/// A message that could not be stored.
pub(super) fn intake(error: &IntakeError) -> Status {
    match error {
        IntakeError::Overloaded { retry_after } => {
            let details = ErrorDetails::with_retry_info(Some(*retry_after));
            let words = "more messages wait to be stored than the limit allows; repeat the call later";
            Reason::Overloaded.status(words, details, [])
        }
        IntakeError::Outbox(error) => outbox(error),
    }
}

/// Somebody who wants to watch where as many do as may.
pub(super) fn too_many_watchers(limit: usize) -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    let words = format!("{limit} calls watch messages already, which is the limit; repeat the call later");
    Reason::TooManyWatchers.status(words, details, [("limit", limit.to_string())])
}

/// A watch that ends because the process does.
pub(super) fn stopping() -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    Reason::Stopping.status("the server stops; watch again", details, [])
}

/// The most bytes of violations of one item of a batch, so that the answer to a whole batch of mistakes stays below the
/// 4 MB that clients take.
const ITEM_VIOLATIONS_LIMIT: usize = 2_000;

/// The same error as one item of a batch has it.
pub(super) fn of_item(status: &Status) -> pb::BatchItemError {
    let details = status.get_error_details();
    let violations = details.bad_request().map(|bad| bad.field_violations.clone()).unwrap_or_default();
    let mut room = ITEM_VIOLATIONS_LIMIT;
    let fitting = violations.into_iter().map_while(|FieldViolation { field, description, .. }| {
        room = room.checked_sub(field.len() + description.len() + VIOLATION_FRAME)?;
        Some(pb::FieldViolation { field, description })
    });
    pb::BatchItemError {
        code: status.code().into(),
        message: status.message().to_owned(),
        field_violations: fitting.collect(),
        reason: details.error_info().map(|info| info.reason.clone()).unwrap_or_default(),
        retry_delay: details.retry_info().and_then(|info| info.retry_delay?.try_into().ok()),
        message_id: details.resource_info().map(|about| about.resource_name.clone()).unwrap_or_default(),
    }
}

/// How long a caller is asked to wait before it tries again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

fn about_message(id: MessageId, description: &str) -> ErrorDetails {
    ErrorDetails::with_resource_info("message", id.to_string(), "", description)
}

#[cfg(test)]
mod tests;
