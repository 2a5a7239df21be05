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
    /// The media types of attachments that are allowed: `application/pdf`, `image/*`. A wildcard covers no type that
    /// can carry a program (HTML, SVG, scripts, executables, macros): such a type must be named. The content, the
    /// declared type and the name's extension must each be allowed. What is not recognised is
    /// `application/octet-stream`; a declared type that cannot be recognised is believed where it is named here.
    pub attachment_types: Vec<String>,
}

/// What transactional email carries: documents to read and to print, tables, appointments, contacts, tickets. Not in
/// the list, since they hide or run what a receiver cannot see: archives, HTML and SVG, XML (a browser runs scripts in
/// it; who sends electronic invoices as bare XML adds `application/xml`), the Office formats of before 2007, and
/// everything with macros.
const ATTACHMENT_TYPES: [&str; 13] = [
    "application/pdf",
    "image/*",
    "text/plain",
    "text/csv",
    "text/calendar",
    "text/vcard",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.presentation",
    "application/vnd.apple.pkpass",
];

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_recipients: 100,
            max_message_bytes: 25 * 1024 * 1024,
            max_attachments: 50,
            document_types: Vec::new(),
            attachment_types: ATTACHMENT_TYPES.map(str::to_owned).to_vec(),
        }
    }
}
