//! What may be sent: the settings.
//!
//! Owns the lists and limits; [`crate::policy`] applies them.

use super::section::{Section, Visitor};

/// What may be sent.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The most recipients of one message, to, cc and bcc together; 100 by default.
    pub max_recipients: usize,
    /// The largest message in bytes: bodies and attachments together, before encoding; 25 MiB by default. Providers
    /// have limits of their own, often of 20 to 40 MB after encoding, which adds a third.
    pub max_message_bytes: usize,
    /// The most attachments of one message, 50 by default.
    pub max_attachments: usize,
    /// The document types allowed, each up to 64 of A–Z, 0–9 and _. Empty, the default: any or none.
    pub document_types: Vec<String>,
    /// The media types of attachments that are allowed, found by content: `application/pdf`, `image/*`. By default PDF,
    /// images and plain text.
    pub attachment_types: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        let types = ["application/pdf", "image/*", "text/plain"];
        Self {
            max_recipients: 100,
            max_message_bytes: 25 * 1024 * 1024,
            max_attachments: 50,
            document_types: Vec::new(),
            attachment_types: types.map(str::to_owned).to_vec(),
        }
    }
}

impl Section for Policy {
    fn visit(self, v: &mut impl Visitor) -> Self {
        Self {
            max_recipients: v.within("max_recipients", self.max_recipients, 1..=10_000),
            max_message_bytes: v.within("max_message_bytes", self.max_message_bytes, 1024..=1024 * 1024 * 1024),
            max_attachments: v.within("max_attachments", self.max_attachments, 0..=1000),
            document_types: v.any("document_types", self.document_types),
            attachment_types: v.any("attachment_types", self.attachment_types),
        }
    }
}
