//! The header Retry-After.
//!
//! Owns its reading; what it means for a provider's rest, and how long a rest is believed at most, is the chain's.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// How long an answer asks to be left alone (RFC 9110, section 10.2.3): seconds, or an HTTP-date in any of its three
/// forms. `None` where it says nothing that lies ahead.
///
/// A date is counted from the answer's own `Date`, so that a difference between the two clocks does not matter.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = text_of(headers, RETRY_AFTER)?;
    let rest = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than the type holds are as good as for ever.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        let from = text_of(headers, DATE).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
        until.duration_since(from).ok()?
    };
    (!rest.is_zero()).then_some(rest)
}

fn text_of(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
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
            ("120", None, Some(120)),
            (" 7 ", None, Some(7)),
            ("0", None, None),
            ("-5", None, None),
            ("", None, None),
            ("soon", None, None),
            ("99999999999999999999999", None, Some(u64::MAX)),
            ("Tue, 01 Dec 2026 12:01:30 GMT", None, Some(90)),
            ("Tuesday, 01-Dec-26 12:01:30 GMT", None, Some(90)),
            ("Tue Dec  1 12:01:30 2026", None, Some(90)),
            ("Tue, 01 Dec 2026 11:00:00 GMT", None, None),
            ("Fri, 01 Dec 2028 12:00:00 GMT", None, Some(731 * 86_400)),
            ("Tue, 01 Dec 2026 13:00:30 GMT", Some("Tue, 01 Dec 2026 13:00:00 GMT"), Some(30)),
            ("Tue, 01 Dec 2026 12:00:30 GMT", Some("nonsense"), Some(30)),
        ];
        for (text, date, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
            if let Some(date) = date {
                headers.insert(DATE, HeaderValue::from_static(date));
            }
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{text:?} at {date:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
