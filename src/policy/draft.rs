//! The email as the caller wrote it: nothing parsed, nothing checked.
//!
//! Owns the shape only. The fields are those of the API's `Email`; an empty text means that there is none.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

/// An email as the caller wrote it.
#[derive(Clone, Default)]
pub struct Draft {
    /// Who it is from.
    pub from: Option<DraftMailbox>,
    /// The recipients of the header To.
    pub to: Vec<DraftMailbox>,
    /// The recipients of the header Cc.
    pub cc: Vec<DraftMailbox>,
    /// The recipients in no header.
    pub bcc: Vec<DraftMailbox>,
    /// Where answers go.
    pub reply_to: Vec<DraftMailbox>,
    /// The subject.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
    /// Files.
    pub attachments: Vec<DraftAttachment>,
    /// Further headers.
    pub headers: Vec<DraftHeader>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The caller's facts.
    pub metadata: BTreeMap<String, String>,
    /// The caller's word for what it carries.
    pub document_type: String,
}

/// An address and a name as the caller wrote them.
#[derive(Clone, Default)]
pub struct DraftMailbox {
    /// The address.
    pub address: String,
    /// The display name.
    pub name: String,
}

/// A file as the caller gave it.
#[derive(Clone, Default)]
pub struct DraftAttachment {
    /// Its name.
    pub filename: String,
    /// Its media type.
    pub content_type: String,
    /// Its bytes.
    pub content: Bytes,
    /// What `cid:` refers to.
    pub content_id: String,
}

/// A header as the caller wrote it.
#[derive(Clone, Default)]
pub struct DraftHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft").field("attachments", &self.attachments.len()).finish_non_exhaustive()
    }
}
