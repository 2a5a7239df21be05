//! What may be sent.

use serde::Deserialize;

/// What may be sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// The most recipients of one message, to, cc and bcc together.
    pub max_recipients: usize,
    /// The largest message, in bytes: bodies and attachments together, before encoding.
    pub max_message_bytes: usize,
    /// The most attachments of one message.
    pub max_attachments: usize,
    /// The document types allowed. Empty: any or none.
    pub document_types: Vec<String>,
    /// The media types of attachments that are allowed, found by content: `application/pdf`, `image/*`.
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
