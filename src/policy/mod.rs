//! What may be sent, and by which chain: the checks between a caller's request and a message that is stored.
//!
//! Owns every rule about the content of an email; knows nothing of protobuf, of the database or of providers.
//!
//! [`Policy::admit`] takes a [`Draft`], the email as the caller wrote it, and gives the parsed [`Email`], or all that
//! is wrong with it at once. [`request::check`] does the same for the fields beside the email. [`Routes`] leads it to its
//! chain.

mod attachments;
mod body;
mod draft;
mod headers;
mod labels;
mod mailboxes;
mod media;
#[cfg(test)]
mod random_tests;
pub mod request;
mod routes;
#[cfg(test)]
mod tests;
mod violation;

use std::collections::HashSet;

pub use self::{
    draft::{Draft, DraftAttachment, DraftHeader, DraftMailbox},
    routes::Routes,
    violation::Violation,
};
use self::{media::AllowedTypes, violation::Violations};
use crate::{config, message::Email};

/// What may be sent, by the settings.
#[derive(Clone, Debug)]
pub struct Policy {
    max_recipients: usize,
    max_message_bytes: usize,
    max_attachments: usize,
    document_types: HashSet<String>,
    attachment_types: AllowedTypes,
}

impl Policy {
    /// The policy of those settings.
    pub fn new(settings: &config::Policy) -> Self {
        Self {
            max_recipients: settings.max_recipients,
            max_message_bytes: settings.max_message_bytes,
            max_attachments: settings.max_attachments,
            document_types: settings.document_types.iter().cloned().collect(),
            attachment_types: AllowedTypes::new(&settings.attachment_types),
        }
    }

    /// Parses and checks the whole email: the email that may be sent, or everything that is wrong with it, in the order
    /// of its fields, each with its path in the API (`email.to[2].address`). No description holds content.
    ///
    /// Reads every attachment to find its type: milliseconds for each megabyte, on the caller's thread.
    pub fn admit(&self, draft: Draft) -> Result<Email, Vec<Violation>> {
        let mut violations = Violations::default();
        let (text, html) = (filled(draft.text), filled(draft.html));
        let attached: usize = draft.attachments.iter().map(|a| a.content.len()).sum();
        let bytes = attached + text.as_ref().map_or(0, String::len) + html.as_ref().map_or(0, String::len);

        let from = mailboxes::sender(draft.from, &mut violations);
        let recipients = [("to", draft.to), ("cc", draft.cc), ("bcc", draft.bcc)];
        let [to, cc, bcc] = mailboxes::recipients(recipients, self.max_recipients, &mut violations);
        let reply_to = mailboxes::reply_to(draft.reply_to, &mut violations);
        body::check_subject(&draft.subject, &mut violations);
        body::check_bodies(text.as_deref(), html.as_deref(), &mut violations);
        // What is too large as a whole is not searched for types as well.
        if bytes > self.max_message_bytes {
            let limit = self.max_message_bytes;
            violations.add("email", format!("has {bytes} bytes in bodies and attachments; the limit is {limit}"));
        }
        let search = (bytes <= self.max_message_bytes).then_some(&self.attachment_types);
        let attachments = attachments::parse(draft.attachments, self.max_attachments, search, &mut violations);
        let headers = headers::parse(draft.headers, &mut violations);
        labels::check_tags(&draft.tags, &mut violations);
        labels::check_metadata(&draft.metadata, &mut violations);
        labels::check_document_type(&draft.document_type, &self.document_types, &mut violations);

        let Some(from) = from.filter(|_| violations.is_empty()) else {
            return Err(violations.into_listed());
        };
        let document_type = filled(draft.document_type);
        let (subject, tags, metadata) = (draft.subject, draft.tags, draft.metadata);
        Ok(Email {
            from,
            to,
            cc,
            bcc,
            reply_to,
            subject,
            text,
            html,
            attachments,
            headers,
            tags,
            metadata,
            document_type,
        })
    }
}

/// The text, if there is any: the API has no other way to leave a text out.
fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
