//! What a provider answered, as far as it could be read.
//!
//! Owns the limits of reading; judges nothing.

use std::time::{Duration, SystemTime};

use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderMap},
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::retry_after::retry_after;

/// An answer: the status line and the headers came whole, the body perhaps not.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub(in crate::provider) status: u16,
    /// The headers.
    pub(in crate::provider) headers: HeaderMap,
    /// The body.
    pub(in crate::provider) body: Body,
    /// When it came, by the local clock.
    pub(in crate::provider) received_at: SystemTime,
}

/// The body of an answer.
#[derive(Debug)]
pub(in crate::provider) enum Body {
    /// All of it, or its beginning where it was longer than [`Body::LIMIT`].
    Read(Vec<u8>),
    /// The connection broke, or time was up, before its end.
    Broken,
}

impl Body {
    /// How much of a body is read.
    pub(in crate::provider) const LIMIT: usize = 64 * 1024;

    async fn read(mut response: Response) -> Self {
        let mut read = Vec::new();
        while read.len() < Self::LIMIT {
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend_from_slice(&chunk[..chunk.len().min(Self::LIMIT - read.len())]),
                Ok(None) => break,
                Err(_) => return Self::Broken,
            }
        }
        Self::Read(read)
    }
}

impl Answer {
    /// Reads the body until that time.
    pub(in crate::provider) async fn read(response: Response, end: Instant) -> Self {
        let (status, received_at) = (response.status().as_u16(), SystemTime::now());
        let headers = response.headers().clone();
        let body = timeout_at(end, Body::read(response)).await.unwrap_or(Body::Broken);
        Self { status, headers, body, received_at }
    }

    /// The body, empty where it could not be read.
    pub(in crate::provider) fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Read(bytes) => bytes,
            Body::Broken => &[],
        }
    }

    /// The body, if it is a JSON object.
    pub(in crate::provider) fn json(&self) -> Option<Value> {
        serde_json::from_slice(self.bytes()).ok().filter(Value::is_object)
    }

    /// A header as text.
    pub(in crate::provider) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// When it was given, by the provider's own clock where it tells: a difference between two clocks then does not
    /// matter.
    pub(in crate::provider) fn given_at(&self) -> SystemTime {
        self.header("date").and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(self.received_at)
    }

    /// For how long the provider asks to be left alone, by the header Retry-After.
    pub(in crate::provider) fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.headers, self.given_at())
    }

    /// The same, by a header of the provider's own that holds the seconds to wait, or the time of the end in seconds
    /// since 1970: providers are not at one about it, and no wait lasts for years.
    pub(in crate::provider) fn rest_by(&self, name: &str) -> Option<Duration> {
        let seconds: u64 = self.header(name)?.parse().ok()?;
        let now = self.given_at().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        let rest = if seconds < 100_000_000 { seconds } else { seconds.checked_sub(now)? };
        (rest > 0).then(|| Duration::from_secs(rest))
    }

    /// Whether the end of the body never came.
    pub(in crate::provider) fn is_broken(&self) -> bool {
        matches!(self.body, Body::Broken)
    }

    /// Whether it is a page for people: then something else than the provider answered, for example a proxy or a login.
    pub(in crate::provider) fn is_page(&self) -> bool {
        let starts_with = |text: &[u8], word: &str| {
            text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        let content_type = self.headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
        let body = self.bytes().strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.bytes()).trim_ascii_start();
        // Some frameworks call whatever they answer HTML: nothing at all, and JSON, is no page.
        let may_be_text = !matches!(body.first(), None | Some(b'{' | b'['));
        (may_be_text && (starts_with(content_type, "text/html") || starts_with(content_type, "application/xhtml")))
            || starts_with(body, "<!doctype html")
            || starts_with(body, "<html")
    }
}

#[cfg(test)]
impl Answer {
    /// An answer that came whole, at the beginning of 1970.
    pub(in crate::provider) fn example(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> Self {
        use reqwest::header::{HeaderName, HeaderValue};
        let header = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let (headers, body) = (headers.iter().map(header).collect(), Body::Read(body.as_bytes().to_vec()));
        Self { status, headers, body, received_at: SystemTime::UNIX_EPOCH }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_what_it_says_and_not_by_what_it_is_called_alone() {
        let html = &[("content-type", "text/html; charset=UTF-8")][..];
        let table = [
            (html, "<p>Log in</p>", true),
            (html, "Forbidden", true),
            (&[][..], "\u{feff} <!DOCTYPE html><title>x</title>", true),
            (html, "{\"id\":\"gw-1\"}", false),
            (html, "", false),
            (&[][..], "Forbidden", false),
        ];
        for (headers, body, expected) in table {
            assert_eq!(Answer::example(200, headers, body).is_page(), expected, "{body}");
        }
    }

    #[test]
    fn a_date_counts_from_the_answers_own() {
        let retry = ("retry-after", "Thu, 01 Jan 1970 01:00:30 GMT");
        for (date, rest) in [("Thu, 01 Jan 1970 01:00:00 GMT", 30), ("nonsense", 3630)] {
            let answer = Answer::example(429, &[retry, ("date", date)], "");
            assert_eq!(answer.retry_after(), Some(Duration::from_secs(rest)), "{date}");
        }
    }

    #[test]
    fn a_providers_own_header_names_a_span_or_a_time() {
        let table = [
            ("30", Some(30)),
            ("0", None),
            ("-1", None),
            ("soon", None),
            ("1796126430", Some(30)),
            ("1000000000", None),
        ];
        for (text, rest) in table {
            let mut answer = Answer::example(429, &[("x-reset", text)], "");
            answer.received_at += Duration::from_secs(1_796_126_400);
            assert_eq!(answer.rest_by("x-reset"), rest.map(Duration::from_secs), "{text}");
        }
        assert_eq!(Answer::example(429, &[], "").rest_by("x-reset"), None);
    }
}
