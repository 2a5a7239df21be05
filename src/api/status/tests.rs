//! Each reason with its code and details, and how much of it an answer can carry.

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
    let contract = include_str!("../../../proto/postrider/v1/email_service.proto");
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
        (too_many_watchers(7), Code::ResourceExhausted, "TOO_MANY_WATCHERS"),
        (stopping(), Code::Unavailable, "STOPPING"),
        (deadline_passed(), Code::DeadlineExceeded, "DEADLINE_PASSED"),
        (call_not_implemented("CancelEmail"), Code::Unimplemented, "CALL_NOT_IMPLEMENTED"),
    ];
    for (status, code, reason) in cases {
        assert_eq!(status.code(), code, "{status:?}");
        let details = status.get_error_details();
        let info = details.error_info().expect("ErrorInfo");
        assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "postrider"));
        let may_pass = matches!(code, Code::Unavailable | Code::ResourceExhausted);
        assert_eq!(details.retry_info().is_some(), may_pass, "{reason}");
        assert_eq!(details.bad_request().is_some(), code == Code::InvalidArgument, "{reason}");
        let names_message = matches!(code, Code::AlreadyExists | Code::NotFound);
        assert_eq!(details.resource_info().map(|r| r.resource_name.clone()), names_message.then(|| id().to_string()));
        assert!(!status.message().contains("secret@example.com"));
    }
}

#[test]
fn an_item_of_a_batch_has_what_the_details_have() {
    let item = of_item(&invalid_request(many(3)));
    assert_eq!((item.code, item.reason.as_str()), (Code::InvalidArgument as i32, "INVALID_REQUEST"));
    assert_eq!(item.message, invalid_request(many(3)).message());
    let named: Vec<&str> = item.field_violations.iter().map(|wrong| wrong.field.as_str()).collect();
    assert_eq!(named, ["email.to[0].address", "email.to[1].address", "email.to[2].address"]);
    assert_eq!(item.field_violations[2].description, "has no \"@\"");
    assert_eq!((item.retry_delay, item.message_id.as_str()), (None, ""));

    let item = of_item(&key_reused(id()));
    assert_eq!((item.reason.as_str(), item.message_id), ("IDEMPOTENCY_KEY_REUSED", id().to_string()));
    let item = of_item(&outbox(&OutboxError::Unavailable("away".into())));
    assert_eq!(item.retry_delay.map(|delay| delay.seconds), Some(1));
}

#[test]
fn a_thousand_mistakes_fit_into_what_clients_take() {
    let wordy = |i| Violation { field: format!("email.metadata[{i}]"), description: "я".repeat(5_000) };
    for violations in [many(1000), (0..1000).map(wordy).collect()] {
        let item = of_item(&invalid_request(violations));
        assert!(item.field_violations.len() > 3, "{item:?}");
        assert!(prost::Message::encoded_len(&item) * 1_000 < 4_000_000, "{}", prost::Message::encoded_len(&item));
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
