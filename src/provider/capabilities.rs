//! What a provider can carry, as its adapter declares it.
//!
//! Owns the declaration and what of an email alone it speaks of; whom a message is offered to is the chain's.

use std::{collections::HashSet, time::Duration};

use crate::message::Email;

/// What a provider can carry. `None` means without limit.
///
/// Nothing is said of headers in other scripts than ASCII: every adapter encodes them (RFC 2047), so every provider
/// carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The largest message, in bytes as the adapter encodes it. The adapter refuses what is larger; a message that is
    /// too large in any encoding is not even offered.
    pub max_bytes: Option<u64>,
    /// The most recipients of one message.
    pub max_recipients: Option<usize>,
    /// Whether the envelope is apart from the headers, so that only some of the recipients can be offered.
    pub envelope_apart: bool,
    /// Whether it shows images inside the HTML.
    pub inline_images: bool,
    /// Which attachments it takes.
    pub attachments: AttachmentNames,
    /// Whether it carries two headers of one name.
    pub repeated_headers: bool,
    /// Whether it carries a message without a recipient in To.
    pub without_to: bool,
    /// Whether it carries a message without a subject.
    pub without_subject: bool,
    /// Whether it carries non-ASCII local parts (RFC 6531).
    pub smtputf8: bool,
    /// For how long it recognises an idempotency key; `None` if it has none.
    pub idempotency: Option<Duration>,
}

/// Which attachments a provider takes, by the extensions of their names (small letters, without the dot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentNames {
    /// Any.
    Any,
    /// Only those with one of these extensions.
    Only(&'static [&'static str]),
    /// Any without one of these extensions.
    AllBut(&'static [&'static str]),
}

/// Why an email cannot be carried, whoever its recipients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// An attachment's name has an extension that it does not take.
    #[error("does not take attachments of that type")]
    Attachment,
    /// Two headers have one name.
    #[error("does not carry two headers of one name")]
    RepeatedHeader,
    /// Nobody stands in To.
    #[error("does not carry a message without a recipient in To")]
    NoTo,
    /// There is no subject.
    #[error("does not carry a message without a subject")]
    NoSubject,
}

impl Capabilities {
    /// Everything, without limit; but a key is not recognised.
    pub fn unlimited() -> Self {
        Self {
            max_bytes: None,
            max_recipients: None,
            envelope_apart: true,
            inline_images: true,
            attachments: AttachmentNames::Any,
            repeated_headers: true,
            without_to: true,
            without_subject: true,
            smtputf8: true,
            idempotency: None,
        }
    }

    /// Why the email cannot be carried as it is: nothing here depends on how it is encoded or on who is still to get it.
    pub fn lack(&self, email: &Email) -> Option<Lack> {
        if !email.attachments.iter().all(|attachment| self.attachments.take(&attachment.filename)) {
            return Some(Lack::Attachment);
        }
        if !self.repeated_headers && has_repeated_header(email) {
            return Some(Lack::RepeatedHeader);
        }
        if !self.without_to && email.to.is_empty() {
            return Some(Lack::NoTo);
        }
        (!self.without_subject && email.subject.trim().is_empty()).then_some(Lack::NoSubject)
    }
}

impl AttachmentNames {
    fn take(self, filename: &str) -> bool {
        let extension = filename.rsplit_once('.').map(|(_, extension)| extension.trim().to_ascii_lowercase());
        let among = |list: &[&str]| extension.as_deref().is_some_and(|extension| list.contains(&extension));
        match self {
            Self::Any => true,
            Self::Only(list) => among(list),
            Self::AllBut(list) => !among(list),
        }
    }
}

fn has_repeated_header(email: &Email) -> bool {
    let mut seen = HashSet::new();
    !email.headers.iter().all(|header| seen.insert(header.name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_is_taken_by_the_last_extension_of_its_name() {
        let pdf: &[&str] = &["pdf"];
        for (name, only, all_but) in [
            ("a.pdf", true, false),
            ("A.PDF", true, false),
            ("a.pdf.exe", false, true),
            ("a", false, true),
            ("pdf", false, true),
            ("a.pdf ", true, false),
        ] {
            assert!(AttachmentNames::Any.take(name));
            assert_eq!(AttachmentNames::Only(pdf).take(name), only, "{name}");
            assert_eq!(AttachmentNames::AllBut(pdf).take(name), all_but, "{name}");
        }
    }
}
