//! What a gateway answered, as far as it could be read.
//!
//! Owns the limits of reading; judges nothing.

use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderMap},
};
use tokio::time::{Instant, timeout_at};

/// An answer: the status line and the headers came whole, the body perhaps not.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    /// The headers.
    pub(super) headers: HeaderMap,
    /// The body.
    pub(super) body: Body,
}

/// The body of an answer.
#[derive(Debug)]
pub(super) enum Body {
    /// All of it, or its beginning where it was longer than [`Body::LIMIT`].
    Read(Vec<u8>),
    /// The connection broke, or time was up, before its end.
    Broken,
}

impl Body {
    /// How much of a body is read.
    pub(super) const LIMIT: usize = 64 * 1024;

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
    pub(super) async fn read(response: Response, end: Instant) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = timeout_at(end, Body::read(response)).await.unwrap_or(Body::Broken);
        Self { status, headers, body }
    }

    /// The body, empty where it could not be read.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Read(bytes) => bytes,
            Body::Broken => &[],
        }
    }

    /// Whether the end of the body never came.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.body, Body::Broken)
    }

    /// Whether it is a page for people: then something else than a gateway answered, for example a proxy or a login.
    pub(super) fn is_page(&self) -> bool {
        let starts_with = |text: &[u8], word: &str| {
            text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        };
        let content_type = self.headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
        let body = self.bytes().strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.bytes()).trim_ascii_start();
        starts_with(content_type, "text/html")
            || starts_with(content_type, "application/xhtml")
            || starts_with(body, "<!doctype html")
            || starts_with(body, "<html")
    }
}
