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
