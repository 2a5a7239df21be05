//! A body of the type multipart/form-data (RFC 7578).
//!
//! Owns its framing. Names and file names go out in UTF-8 with quotes and line ends escaped as browsers do, which is what
//! the servers of mail providers read.

use bytes::Bytes;
use reqwest::header::{HeaderValue, InvalidHeaderValue};

use super::{Payload, Piece};

/// A form that grows by its fields.
pub(in crate::provider) struct Form {
    boundary: String,
    pieces: Vec<Piece>,
}

impl Form {
    /// An empty form. No field may contain the boundary, which must be of ASCII letters, digits and `-`.
    pub(in crate::provider) fn new(boundary: String) -> Self {
        Self { boundary, pieces: Vec::new() }
    }

    /// A field of text.
    pub(in crate::provider) fn field(self, name: &str, value: &str) -> Self {
        let head = format!("--{}\r\nContent-Disposition: form-data; name=\"{}\"", self.boundary, escape(name));
        self.with(format!("{head}\r\n\r\n{value}\r\n").into(), None)
    }

    /// A file, which goes out as it is.
    pub(in crate::provider) fn file(self, name: &str, filename: &str, content_type: &str, content: Bytes) -> Self {
        let disposition = format!("form-data; name=\"{}\"; filename=\"{}\"", escape(name), escape(filename));
        let boundary = &self.boundary;
        let head =
            format!("--{boundary}\r\nContent-Disposition: {disposition}\r\nContent-Type: {content_type}\r\n\r\n");
        self.with(head.into(), Some(content))
    }

    /// The value of Content-Type, and the body.
    pub(in crate::provider) fn finish(self) -> Result<(HeaderValue, Payload), InvalidHeaderValue> {
        let content_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={}", self.boundary))?;
        let end = format!("--{}--\r\n", self.boundary);
        Ok((content_type, Payload::new(self.with(end.into(), None).pieces)))
    }

    fn with(mut self, head: Bytes, content: Option<Bytes>) -> Self {
        self.pieces.push(Piece::Plain(head));
        if let Some(content) = content {
            self.pieces.extend([Piece::Plain(content), Piece::Plain(Bytes::from_static(b"\r\n"))]);
        }
        self
    }
}

/// As the HTML standard has it, section 4.10.21.8.
fn escape(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}
