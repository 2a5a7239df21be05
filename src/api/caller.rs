//! Who calls, and by which word the call is found again: what a call's metadata says.
//!
//! Owns no authentication: until calls bear credentials, a client is who it says it is.

use http::HeaderMap;
use tonic::Status;

use super::status;
use crate::{
    message::{ClientId, TraceContext},
    policy::request::is_correlation_id,
    telemetry,
};

/// The metadata that names the client.
pub const CLIENT_ID: &str = "x-client-id";

/// The client of a call that does not name one.
pub const DEFAULT_CLIENT: &str = "default";

const CORRELATION_IDS: [&str; 2] = ["x-correlation-id", "x-request-id"];
const CLIENT_ID_LIMIT: usize = 64;

/// The client that calls. An unusable name is refused rather than replaced: messages must not end up with another
/// client than the caller thinks.
pub(super) fn client(headers: &HeaderMap) -> Result<ClientId, Status> {
    let mut named = headers.get_all(CLIENT_ID).iter();
    match (named.next(), named.next()) {
        (None, _) => Ok(ClientId::new(DEFAULT_CLIENT)),
        (Some(_), Some(_)) => Err(status::invalid_field(CLIENT_ID, "is given more than once")),
        (Some(name), None) => match name.to_str() {
            Ok(name) if is_client_name(name) => Ok(ClientId::new(name)),
            _ => Err(status::invalid_field(
                CLIENT_ID,
                "is not 1 to 64 characters of A-Z, a-z, 0-9, \".\", \"_\" and \"-\"",
            )),
        },
    }
}

/// The correlation id that the metadata names, or that follows from the trace. What is not a usable word is passed
/// over: a proxy may have put it there, and that is no reason to refuse an email.
pub(super) fn correlation_id(headers: &HeaderMap, trace: &TraceContext) -> Option<String> {
    let named = CORRELATION_IDS.into_iter().filter_map(|name| headers.get(name)?.to_str().ok());
    named.map(str::trim).find(|word| is_correlation_id(word)).or_else(|| telemetry::trace_id(trace)).map(str::to_owned)
}

pub(super) fn is_client_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=CLIENT_ID_LIMIT).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use tonic_types::StatusExt as _;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("a value"));
        }
        headers
    }

    #[test]
    fn a_client_is_who_it_says_it_is() {
        let longest = "a".repeat(64);
        for (given, expected) in [("orders", "orders"), ("Team-1_x.y", "Team-1_x.y"), (&longest, &longest)] {
            assert_eq!(client(&headers(&[(CLIENT_ID, given)])).expect("a client").as_str(), expected);
        }
        assert_eq!(client(&HeaderMap::new()).expect("a client").as_str(), "default");
    }

    #[test]
    fn an_unusable_client_name_is_refused_by_name() {
        let too_long = "a".repeat(65);
        let cases: [&[(&str, &str)]; 6] = [
            &[(CLIENT_ID, "")],
            &[(CLIENT_ID, "two words")],
            &[(CLIENT_ID, "café")],
            &[(CLIENT_ID, "a/b")],
            &[(CLIENT_ID, &too_long)],
            &[(CLIENT_ID, "one"), (CLIENT_ID, "two")],
        ];
        for case in cases {
            let status = client(&headers(case)).expect_err("refused");
            let details = status.get_error_details();
            assert_eq!(details.bad_request().expect("BadRequest").field_violations[0].field, "x-client-id", "{case:?}");
        }
    }

    #[test]
    fn the_correlation_id_is_the_first_usable_word() {
        let trace = TraceContext {
            traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
            tracestate: String::new(),
        };
        let too_long = "x".repeat(129);
        type Case<'a> = (&'a [(&'static str, &'a str)], &'a TraceContext, Option<&'a str>);
        let cases: [Case<'_>; 8] = [
            (&[("x-correlation-id", "c-1"), ("x-request-id", "r-1")], &trace, Some("c-1")),
            (&[("x-request-id", "r-1")], &trace, Some("r-1")),
            (&[("x-correlation-id", "é"), ("x-request-id", "r-1")], &trace, Some("r-1")),
            (&[("x-correlation-id", &too_long)], &trace, Some("4bf92f3577b34da6a3ce929d0e0e4736")),
            (&[("x-correlation-id", "a\tb")], &trace, Some("4bf92f3577b34da6a3ce929d0e0e4736")),
            (&[("x-correlation-id", "  ")], &trace, Some("4bf92f3577b34da6a3ce929d0e0e4736")),
            (&[], &trace, Some("4bf92f3577b34da6a3ce929d0e0e4736")),
            (&[], &TraceContext::default(), None),
        ];
        for (metadata, trace, expected) in cases {
            assert_eq!(correlation_id(&headers(metadata), trace).as_deref(), expected, "{metadata:?}");
        }
    }
}
