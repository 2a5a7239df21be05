//! The header Retry-After.
//!
//! Owns its reading; what it means for a provider's rest, and how long a rest is believed at most, is the chain's.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How long an answer asks to be left alone (RFC 9110, section 10.2.3): seconds, or an HTTP-date in any of its three
/// forms. `None` where it says nothing that lies ahead.
///
/// `now` is the time by the clock that the date was made by.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let rest = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than the type holds are as good as for ever.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        until.duration_since(now).ok()?
    };
    (!rest.is_zero()).then_some(rest)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn seconds_and_dates_are_read_and_nonsense_is_not() {
        let now = httpdate::parse_http_date("Tue, 01 Dec 2026 12:00:00 GMT").unwrap();
        let table = [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("0", None),
            ("-5", None),
            ("", None),
            ("soon", None),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Tue, 01 Dec 2026 12:01:30 GMT", Some(90)),
            ("Tuesday, 01-Dec-26 12:01:30 GMT", Some(90)),
            ("Tue Dec  1 12:01:30 2026", Some(90)),
            ("Tue, 01 Dec 2026 11:00:00 GMT", None),
            ("Fri, 01 Dec 2028 12:00:00 GMT", Some(731 * 86_400)),
        ];
        for (text, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
