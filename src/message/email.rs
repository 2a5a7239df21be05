//! The email itself.
//!
//! Owns no check: what may be sent is decided in the policy, before there is one of these.

use std::{collections::BTreeMap, fmt};

use super::{Attachment, Mailbox};

/// What is to be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Email {
    /// Who it is from.
    pub from: Mailbox,
    /// The header To.
    pub to: Vec<Mailbox>,
    /// The header Cc.
    pub cc: Vec<Mailbox>,
    /// In no header.
    pub bcc: Vec<Mailbox>,
    /// The header Reply-To.
    pub reply_to: Vec<Mailbox>,
    /// The subject.
    pub subject: String,
    /// The body as plain text.
    pub text: Option<String>,
    /// The body as HTML.
    pub html: Option<String>,
    /// Files, and images shown inside the HTML.
    pub attachments: Vec<Attachment>,
    /// Further headers, in their order.
    pub headers: Vec<Header>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The caller's facts about it.
    pub metadata: BTreeMap<String, String>,
    /// The caller's word for what it carries.
    pub document_type: Option<String>,
}

impl Email {
    /// Every recipient with its index, in the order to, cc, bcc.
    pub fn recipients(&self) -> impl Iterator<Item = (RecipientIndex, &Mailbox)> {
        self.to
            .iter()
            .chain(&self.cc)
            .chain(&self.bcc)
            .enumerate()
            .map(|(index, mailbox)| (RecipientIndex(u16::try_from(index).unwrap_or(u16::MAX)), mailbox))
    }

    /// How many recipients there are.
    pub fn recipient_count(&self) -> usize {
        self.to.len() + self.cc.len() + self.bcc.len()
    }

    /// How many bytes its bodies and attachments have: nearly all it takes in memory.
    pub fn content_bytes(&self) -> u64 {
        let texts = [&self.text, &self.html].into_iter().flatten().map(String::len);
        let attachments = self.attachments.iter().map(|attachment| attachment.content.len());
        texts.chain(attachments).map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX)).fold(0, u64::saturating_add)
    }

    /// The recipient of that index.
    pub fn recipient(&self, index: RecipientIndex) -> Option<&Mailbox> {
        self.to.iter().chain(&self.cc).chain(&self.bcc).nth(usize::from(index.0))
    }
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email")
            .field("recipients", &self.recipient_count())
            .field("attachments", &self.attachments)
            .finish_non_exhaustive()
    }
}

/// A header beside those that Postrider writes itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Which recipient of a message: its place in to, cc, bcc, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecipientIndex(pub u16);
