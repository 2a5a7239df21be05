//! A mail as the inbox shows it, and as a provider hands it in.
//!
//! Owns the one form of what arrives in several; keeps nothing.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use time::OffsetDateTime;

/// A mail that arrived.
#[derive(Clone)]
pub struct Mail {
    /// Its number in this inbox, from 0 in the order of arrival.
    pub number: u64,
    /// The provider it arrived at.
    pub provider: Arc<str>,
    /// The envelope's sender.
    pub sender: String,
    /// The envelope's recipients. One that had this mail before is not here again: that is a repeat.
    pub recipients: Vec<String>,
    /// Its Message-ID without the angle brackets, or what a gateway is given in its place; empty if it had none.
    pub message_id: String,
    /// Its subject.
    pub subject: String,
    /// When it arrived, by this machine's clock.
    pub received_at: OffsetDateTime,
    /// How often it arrived again.
    pub repeats: u32,
    /// The headers of the request that brought it, names in lower case, credentials left out. None by SMTP.
    pub properties: Vec<(String, String)>,
    /// What it consists of.
    pub content: Content,
}

impl Mail {
    /// The header of that name (in lower case) of the request that brought it.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Nothing that could be an address.
impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("number", &self.number)
            .field("provider", &self.provider)
            .field("recipients", &self.recipients.len())
            .field("repeats", &self.repeats)
            .finish_non_exhaustive()
    }
}

/// What a mail consists of.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// The bytes of its MIME form, as they were before the transport stuffed dots.
    Mime(Bytes),
    /// The bytes of its JSON form.
    Json(Bytes),
    /// It was not kept.
    Dropped,
}

impl Content {
    /// The bytes; `None` if they were not kept.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Content::Mime(bytes) | Content::Json(bytes) => Some(bytes),
            Content::Dropped => None,
        }
    }
}

/// What a provider hands in.
pub(in crate::sandbox) struct Arrival {
    pub(in crate::sandbox) provider: Arc<str>,
    pub(in crate::sandbox) sender: String,
    pub(in crate::sandbox) recipients: Vec<String>,
    pub(in crate::sandbox) message_id: String,
    pub(in crate::sandbox) subject: String,
    pub(in crate::sandbox) properties: Vec<(String, String)>,
    pub(in crate::sandbox) content: Content,
    /// By what it is recognised: the idempotency key, or else the Message-ID. Empty if by nothing.
    pub(in crate::sandbox) identity: String,
}

impl Arrival {
    /// The mail it becomes.
    pub(super) fn into_mail(self, number: u64) -> Mail {
        Mail {
            number,
            provider: self.provider,
            sender: self.sender,
            recipients: self.recipients,
            message_id: self.message_id,
            subject: self.subject,
            received_at: OffsetDateTime::now_utc(),
            repeats: 0,
            properties: self.properties,
            content: self.content,
        }
    }
}

/// A Message-ID without its angle brackets.
pub(in crate::sandbox) fn bare_message_id(message_id: &str) -> &str {
    message_id.trim().trim_start_matches('<').trim_end_matches('>')
}
