//! Rules for the fields of a request beside the email.
//!
//! Owns what a caller may write there; what the fields do is the API's and the outbox's.

use time::{Duration, OffsetDateTime};

use super::violation::{Violation, Violations, is_control};

/// The longest idempotency key, in bytes.
pub const MAX_IDEMPOTENCY_KEY: usize = 255;
/// The longest correlation id, in characters.
pub const MAX_CORRELATION_ID: usize = 128;
/// How far ahead a message may be sent.
pub const MAX_SEND_AHEAD: Duration = Duration::days(30);

/// The fields of a request beside the email. An empty text means that there is none.
#[derive(Clone, Copy, Default)]
pub struct RequestFields<'a> {
    /// The caller's key for the message.
    pub idempotency_key: &'a str,
    /// What ties the message to the caller's own work.
    pub correlation_id: &'a str,
    /// Not before this time.
    pub send_at: Option<OffsetDateTime>,
    /// Not after this time.
    pub expire_at: Option<OffsetDateTime>,
}

/// Everything that is wrong with the fields, at the time `now` of the database.
pub fn check(fields: &RequestFields<'_>, now: OffsetDateTime) -> Vec<Violation> {
    let mut violations = Violations::default();
    check_idempotency_key(fields.idempotency_key, &mut violations);
    if !fields.correlation_id.is_empty() && !is_correlation_id(fields.correlation_id) {
        let description = format!("is not made of at most {MAX_CORRELATION_ID} printable ASCII characters");
        violations.add("correlation_id", description);
    }
    if fields.send_at.is_some_and(|at| at - now > MAX_SEND_AHEAD) {
        let days = MAX_SEND_AHEAD.whole_days();
        violations.add("send_at", format!("is more than {days} days ahead, which is the limit"));
    }
    if let Some(expire_at) = fields.expire_at {
        if expire_at <= now {
            violations.add("expire_at", "has passed");
        } else if fields.send_at.is_some_and(|send_at| expire_at <= send_at) {
            violations.add("expire_at", "is not later than send_at");
        }
    }
    violations.into_listed()
}

/// Whether a text can be an idempotency key: up to 255 bytes without control characters.
pub fn is_idempotency_key(text: &str) -> bool {
    let mut violations = Violations::default();
    check_idempotency_key(text, &mut violations);
    violations.into_listed().is_empty()
}

fn check_idempotency_key(key: &str, violations: &mut Violations) {
    if key.len() > MAX_IDEMPOTENCY_KEY {
        let description = format!("has {} bytes; the limit is {MAX_IDEMPOTENCY_KEY}", key.len());
        violations.add("idempotency_key", description);
    }
    if key.chars().any(is_control) {
        violations.add("idempotency_key", "has a control character, such as a line end or a tab");
    }
}

/// Whether a text can be a correlation id: 1 to 128 printable ASCII characters, spaces among them. For those that come
/// with a call's metadata, where a wrong one is replaced and not refused.
pub fn is_correlation_id(text: &str) -> bool {
    (1..=MAX_CORRELATION_ID).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

    fn found(fields: RequestFields<'_>) -> Vec<String> {
        check(&fields, NOW).into_iter().map(|v| format!("{} {}", v.field, v.description)).collect()
    }

    #[test]
    fn what_is_in_order_passes() {
        let key = "k".repeat(255);
        let id = "~".repeat(128);
        let at = |offset| Some(NOW + offset);
        for fields in [
            RequestFields::default(),
            RequestFields { idempotency_key: &key, correlation_id: &id, ..Default::default() },
            RequestFields { idempotency_key: "счёт-7 ", correlation_id: "order 7", ..Default::default() },
            RequestFields { send_at: at(Duration::days(30)), expire_at: at(Duration::days(31)), ..Default::default() },
            RequestFields { send_at: at(-Duration::days(400)), expire_at: at(Duration::SECOND), ..Default::default() },
        ] {
            assert_eq!(found(fields), Vec::<String>::new());
        }
    }

    #[test]
    fn each_field_is_refused_with_its_limit() {
        let key = "k".repeat(256);
        let id = "i".repeat(129);
        let at = |offset| Some(NOW + offset);
        let second = Duration::SECOND;
        let table = [
            (
                RequestFields { idempotency_key: &key, ..Default::default() },
                "idempotency_key has 256 bytes; the limit is 255",
            ),
            (
                RequestFields { idempotency_key: "a\nb", ..Default::default() },
                "idempotency_key has a control character, such as a line end or a tab",
            ),
            (
                RequestFields { correlation_id: &id, ..Default::default() },
                "correlation_id is not made of at most 128 printable ASCII characters",
            ),
            (
                RequestFields { correlation_id: "a\r\nX-Evil: b", ..Default::default() },
                "correlation_id is not made of at most 128 printable ASCII characters",
            ),
            (
                RequestFields { correlation_id: "é", ..Default::default() },
                "correlation_id is not made of at most 128 printable ASCII characters",
            ),
            (
                RequestFields { send_at: at(Duration::days(30) + second), ..Default::default() },
                "send_at is more than 30 days ahead, which is the limit",
            ),
            (RequestFields { expire_at: Some(NOW), ..Default::default() }, "expire_at has passed"),
            (
                RequestFields { send_at: at(second), expire_at: at(second), ..Default::default() },
                "expire_at is not later than send_at",
            ),
        ];
        for (fields, expected) in table {
            assert_eq!(found(fields), [expected]);
        }
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let far = Some(NOW + Duration::days(365));
        let fields = RequestFields { idempotency_key: "\0", correlation_id: "\0", send_at: far, expire_at: Some(NOW) };
        assert_eq!(found(fields).len(), 4);
    }

    #[test]
    fn times_at_the_ends_of_the_calendar_do_no_harm() {
        let ends = [datetime!(-9999-01-01 0:00 UTC), datetime!(9999-12-31 23:59:59.999999999 UTC)];
        for send_at in ends {
            for expire_at in ends {
                for now in ends {
                    check(
                        &RequestFields { send_at: Some(send_at), expire_at: Some(expire_at), ..Default::default() },
                        now,
                    );
                }
            }
        }
    }
}
