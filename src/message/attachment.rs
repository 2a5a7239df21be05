//! Files that go with an email.

use std::fmt;

use bytes::Bytes;

/// A file that goes with an email.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The name the receiver sees.
    pub filename: String,
    /// The media type, for example `application/pdf`.
    pub content_type: String,
    /// The bytes.
    pub content: Bytes,
    /// For an image shown inside the HTML: what `cid:` refers to, without angle brackets.
    pub content_id: Option<String>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("bytes", &self.content.len()).finish_non_exhaustive()
    }
}
