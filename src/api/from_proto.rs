//! From protobuf to the domain: a request becomes what is to be accepted, or the list of all that is wrong with it.
//!
//! Owns what only protobuf can get wrong (an enum value nobody defined, a time out of range). What may be sent is
//! [`crate::policy`]'s to say.

use prost_types::Timestamp;
use time::{Duration, OffsetDateTime};

use super::caller::is_client_name;
use crate::{
    message::{ClientId, Email, MessageId, MessageIdError, Priority, UnknownOutcome},
    policy::{self, Draft, DraftAttachment, DraftHeader, DraftMailbox, Policy, Violation, request::RequestFields},
    proto::v1 as pb,
};

/// A `SendEmail` that may be accepted.
pub(super) struct Order {
    /// What is to be sent.
    pub(super) email: Email,
    /// Not before.
    pub(super) send_at: Option<OffsetDateTime>,
    /// Not after.
    pub(super) expire_at: Option<OffsetDateTime>,
    /// Which share of the dispatchers it gets.
    pub(super) priority: Priority,
    /// What to do when nobody can know whether it was sent.
    pub(super) unknown_outcome: UnknownOutcome,
    /// The correlation id, if the request names one.
    pub(super) correlation_id: Option<String>,
}

/// Reads a `SendEmail`, and names everything that is wrong with it, the email first.
pub(super) fn order(
    request: pb::SendEmailRequest,
    policy: &Policy,
    now: OffsetDateTime,
) -> Result<Order, Vec<Violation>> {
    let mut wrong = Vec::new();
    let email = match request.email {
        Some(email) => policy.admit(draft(email)).map_err(|violations| wrong.extend(violations)).ok(),
        None => {
            wrong.push(violation("email", "is required"));
            None
        }
    };
    let send_at = time("send_at", request.send_at).unwrap_or_else(|violation| note(&mut wrong, violation));
    let expire_at = time("expire_at", request.expire_at).unwrap_or_else(|violation| note(&mut wrong, violation));
    let fields = RequestFields {
        idempotency_key: &request.idempotency_key,
        correlation_id: &request.correlation_id,
        send_at,
        expire_at,
    };
    wrong.extend(policy::request::check(&fields, now));
    let priority = priority(request.priority).unwrap_or_else(|violation| note(&mut wrong, violation));
    let unknown_outcome =
        unknown_outcome(request.unknown_outcome_policy).unwrap_or_else(|violation| note(&mut wrong, violation));

    match (email, priority, unknown_outcome) {
        (Some(email), Some(priority), Some(unknown_outcome)) if wrong.is_empty() => Ok(Order {
            email,
            send_at,
            expire_at,
            priority,
            unknown_outcome,
            correlation_id: Some(request.correlation_id).filter(|id| !id.is_empty()),
        }),
        _ => Err(wrong),
    }
}

/// Reads a message id.
pub(super) fn message_id(text: &str) -> Result<MessageId, MessageIdError> {
    text.parse()
}

fn draft(email: pb::Email) -> Draft {
    Draft {
        from: email.from.map(mailbox),
        to: email.to.into_iter().map(mailbox).collect(),
        cc: email.cc.into_iter().map(mailbox).collect(),
        bcc: email.bcc.into_iter().map(mailbox).collect(),
        reply_to: email.reply_to.into_iter().map(mailbox).collect(),
        subject: email.subject,
        text: email.text,
        html: email.html,
        attachments: email.attachments.into_iter().map(attachment).collect(),
        headers: email.headers.into_iter().map(|h| DraftHeader { name: h.name, value: h.value }).collect(),
        tags: email.tags,
        metadata: email.metadata.into_iter().collect(),
        document_type: email.document_type,
    }
}

fn mailbox(mailbox: pb::Mailbox) -> DraftMailbox {
    DraftMailbox { address: mailbox.address, name: mailbox.name }
}

fn attachment(attachment: pb::Attachment) -> DraftAttachment {
    DraftAttachment {
        filename: attachment.filename,
        content_type: attachment.content_type,
        content: attachment.content,
        content_id: attachment.content_id,
    }
}

/// A time, to the microsecond that the database keeps. The range is that of `google.protobuf.Timestamp`, years 1 to
/// 9999.
pub(super) fn time(field: &str, time: Option<Timestamp>) -> Result<Option<OffsetDateTime>, Violation> {
    let Some(Timestamp { seconds, nanos }) = time else { return Ok(None) };
    let whole = OffsetDateTime::from_unix_timestamp(seconds).ok().filter(|at| at.year() >= 1);
    match whole {
        Some(whole) if (0..1_000_000_000).contains(&nanos) => {
            Ok(Some(whole + Duration::microseconds(i64::from(nanos / 1_000))))
        }
        _ => Err(violation(field, "is not a time between the years 1 and 9999")),
    }
}

fn priority(value: i32) -> Result<Option<Priority>, Violation> {
    match pb::Priority::try_from(value) {
        Ok(pb::Priority::High) => Ok(Some(Priority::High)),
        Ok(pb::Priority::Normal | pb::Priority::Unspecified) => Ok(Some(Priority::Normal)),
        Ok(pb::Priority::Bulk) => Ok(Some(Priority::Bulk)),
        Err(_) => Err(violation("priority", &format!("has no value {value}"))),
    }
}

/// The priority and the client of a lane.
pub(super) fn lane(priority: i32, client: &str) -> Result<(Priority, ClientId), Vec<Violation>> {
    let priority = match pb::Priority::try_from(priority) {
        Ok(pb::Priority::Unspecified) => Err(violation("priority", "is missing")),
        _ => self::priority(priority),
    };
    let client = match is_client_name(client) {
        true => Ok(ClientId::new(client)),
        false => Err(violation("client", "is not the name of a client")),
    };
    match (priority, client) {
        (Ok(Some(priority)), Ok(client)) => Ok((priority, client)),
        (priority, client) => Err(priority.err().into_iter().chain(client.err()).collect()),
    }
}

fn unknown_outcome(value: i32) -> Result<Option<UnknownOutcome>, Violation> {
    use pb::UnknownOutcomePolicy as Wire;
    match Wire::try_from(value) {
        Ok(Wire::Resend | Wire::Unspecified) => Ok(Some(UnknownOutcome::Resend)),
        Ok(Wire::Hold) => Ok(Some(UnknownOutcome::Hold)),
        Err(_) => Err(violation("unknown_outcome_policy", &format!("has no value {value}"))),
    }
}

/// Notes a violation, and goes on without the value.
pub(super) fn note<T>(wrong: &mut Vec<Violation>, violation: Violation) -> Option<T> {
    wrong.push(violation);
    None
}

pub(super) fn violation(field: &str, description: &str) -> Violation {
    Violation { field: field.to_owned(), description: description.to_owned() }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::config;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

    fn request() -> pb::SendEmailRequest {
        let mailbox = |address: &str, name: &str| pb::Mailbox { address: address.into(), name: name.into() };
        pb::SendEmailRequest {
            email: Some(pb::Email {
                from: Some(mailbox("billing@example.com", "Billing")),
                to: vec![mailbox("ada@example.com", "Ada")],
                bcc: vec![mailbox("archive@example.com", "")],
                subject: "Invoice".into(),
                text: "Enclosed.".into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    fn read(request: pb::SendEmailRequest) -> Result<Order, Vec<(String, String)>> {
        order(request, &Policy::new(&config::Policy::default()), NOW)
            .map_err(|wrong| wrong.into_iter().map(|v| (v.field, v.description)).collect())
    }

    fn fields(request: pb::SendEmailRequest) -> Vec<String> {
        read(request).err().unwrap_or_default().into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn what_is_not_set_gets_its_meaning() {
        let Ok(order) = read(request()) else { panic!("refused") };
        assert_eq!(order.priority, Priority::Normal);
        assert_eq!(order.unknown_outcome, UnknownOutcome::Resend);
        assert_eq!((order.send_at, order.expire_at, order.correlation_id), (None, None, None));
        assert_eq!(order.email.to[0].name.as_deref(), Some("Ada"));
        assert_eq!(order.email.bcc[0].address.as_str(), "archive@example.com");
    }

    #[test]
    fn what_is_set_is_taken_over() {
        let request = pb::SendEmailRequest {
            send_at: Some(Timestamp { seconds: NOW.unix_timestamp() + 60, nanos: 1_999 }),
            expire_at: Some(Timestamp { seconds: NOW.unix_timestamp() + 120, nanos: 0 }),
            priority: pb::Priority::Bulk as i32,
            unknown_outcome_policy: pb::UnknownOutcomePolicy::Hold as i32,
            correlation_id: "order 4711".into(),
            ..request()
        };
        let Ok(order) = read(request) else { panic!("refused") };
        assert_eq!(order.send_at, Some(datetime!(2026-12-01 12:01:00.000_001 UTC)));
        assert_eq!(order.expire_at, Some(datetime!(2026-12-01 12:02 UTC)));
        assert_eq!((order.priority, order.unknown_outcome), (Priority::Bulk, UnknownOutcome::Hold));
        assert_eq!(order.correlation_id.as_deref(), Some("order 4711"));
    }

    #[test]
    fn everything_wrong_is_named_at_once() {
        let mut request = request();
        request.idempotency_key = "k".repeat(256);
        request.email.as_mut().expect("an email").to[0].address = "nobody".into();
        request.send_at = Some(Timestamp { seconds: i64::MAX, nanos: 0 });
        request.expire_at = Some(Timestamp { seconds: NOW.unix_timestamp() - 1, nanos: 0 });
        request.priority = 77;
        request.unknown_outcome_policy = -1;
        request.correlation_id = "a\nb".into();
        assert_eq!(
            fields(request),
            [
                "email.to[0].address",
                "send_at",
                "idempotency_key",
                "correlation_id",
                "expire_at",
                "priority",
                "unknown_outcome_policy"
            ]
        );
    }

    #[test]
    fn an_empty_request_lacks_an_email() {
        assert_eq!(fields(pb::SendEmailRequest::default()), ["email"]);
    }

    #[test]
    fn times_outside_the_range_of_a_timestamp_are_refused() {
        let now = NOW.unix_timestamp();
        let cases = [
            (i64::MAX, 0, true),
            (i64::MIN, 0, true),
            (-62_135_596_801, 0, true),
            (253_402_300_800, 0, true),
            (now, 1_000_000_000, true),
            (now, -1, true),
            (now, i32::MIN, true),
            (-62_135_596_800, 0, false),
            (now, 999_999_999, false),
        ];
        for (seconds, nanos, refused) in cases {
            let request = pb::SendEmailRequest { send_at: Some(Timestamp { seconds, nanos }), ..request() };
            let expected: &[&str] = if refused { &["send_at"] } else { &[] };
            assert_eq!(fields(request), expected, "{seconds} s {nanos} ns");
        }
    }

    #[test]
    fn values_that_nobody_defined_are_named() {
        let request = pb::SendEmailRequest { priority: 4, ..request() };
        assert_eq!(read(request).err(), Some(vec![("priority".to_owned(), "has no value 4".to_owned())]));
    }
}
