//! A message as SMTP takes it: envelope and bytes, checked so that nothing in them can end a command or the content.
//!
//! Owns what may go over the wire; sends nothing.

use std::sync::Arc;

use lettre::Address;
use memchr::{memchr2_iter, memmem};

use super::{dkim::Keys, fault::Decline};
use crate::{
    message::{EmailAddress, Message, RecipientIndex, mime},
    provider::Submission,
};

/// A message as SMTP takes it.
pub(super) struct Letter {
    /// The reverse path.
    pub(super) from: Address,
    /// How many bytes the content has, as SIZE counts them (RFC 1870, section 5): without what the wire adds.
    pub(super) size: usize,
    /// Whether the content is more than ASCII.
    pub(super) has_eight_bit: bool,
    /// The content as it goes over the wire: every line ends with CRLF, dots are stuffed, and the final dot follows.
    pub(super) wire_form: Vec<u8>,
    /// Whether a server without SMTPUTF8 cannot carry it to anybody.
    pub(super) needs_smtputf8: bool,
    message: Arc<Message>,
}

impl Letter {
    /// The letter of a submission, signed with those keys that speak for its sender.
    pub(super) fn new(submission: &Submission, keys: &Keys) -> Result<Self, Decline> {
        let message = &submission.message;
        let content = mime::render(message).map_err(|_| Decline::UnsafeContent)?;
        // The time of acceptance, so that each attempt sends the same bytes.
        let signatures = keys.sign(&message.email.from.address, message.accepted_at, &content);
        let mut signed = signatures.map_err(|_| Decline::UnsafeContent)?.into_bytes();
        let content = if signed.is_empty() {
            content
        } else {
            signed.extend(content);
            signed
        };
        Self::of(message.clone(), content)
    }

    fn of(message: Arc<Message>, content: Vec<u8>) -> Result<Self, Decline> {
        if has_bare_line_end(&content) {
            return Err(Decline::UnsafeContent);
        }
        let from = &message.email.from.address;
        let has_eight_bit = !content.is_ascii();
        let needs_smtputf8 = !from.is_ascii() || has_eight_bit;
        let from = path(from).ok_or(Decline::UnsafeContent)?;
        Ok(Self { from, size: content.len(), has_eight_bit, wire_form: wire_form(content), needs_smtputf8, message })
    }

    /// The forward path of a recipient; `None` if it cannot be written in a command.
    pub(super) fn recipient(&self, index: RecipientIndex) -> Option<Address> {
        path(&self.message.email.recipient(index)?.address)
    }

    /// Whether one of those recipients has a non-ASCII address.
    pub(super) fn has_non_ascii(&self, recipients: &[RecipientIndex]) -> bool {
        recipients.iter().any(|&index| self.message.email.recipient(index).is_some_and(|r| !r.address.is_ascii()))
    }
}

/// The content with a second dot before each that begins a line (RFC 5321, section 4.5.2), its last line ended, and the
/// final dot. Only CRLF ends a line here: see [`has_bare_line_end`].
fn wire_form(mut content: Vec<u8>) -> Vec<u8> {
    if !content.is_empty() && !content.ends_with(b"\r\n") {
        content.extend_from_slice(b"\r\n");
    }
    let mut stuffed =
        if content.starts_with(b".") || memmem::find(&content, b"\r\n.").is_some() { stuff(&content) } else { content };
    stuffed.extend_from_slice(b".\r\n");
    stuffed
}

fn stuff(content: &[u8]) -> Vec<u8> {
    let mut stuffed = Vec::with_capacity(content.len() + content.len() / 64 + 16);
    if content.starts_with(b".") {
        stuffed.push(b'.');
    }
    let mut from = 0;
    for line_end in memmem::find_iter(content, b"\r\n.") {
        stuffed.extend_from_slice(&content[from..line_end + 2]);
        stuffed.push(b'.');
        from = line_end + 2;
    }
    stuffed.extend_from_slice(&content[from..]);
    stuffed
}

/// The address as a path in a command. It was parsed before it came here; that nothing in it can end the path or the
/// line is made sure of once more, because more than this message depends on it.
fn path(address: &EmailAddress) -> Option<Address> {
    let quoted = address.local().len() >= 2 && address.local().starts_with('"') && address.local().ends_with('"');
    let breaks_out = |c: char| c.is_control() || (!quoted && matches!(c, ' ' | '<' | '>'));
    let domain_breaks_out = |c: char| c.is_control() || matches!(c, ' ' | '<' | '>');
    let is_safe = !address.local().is_empty()
        && !address.local().contains(breaks_out)
        && !address.domain().contains(domain_breaks_out);
    is_safe.then(|| Address::new_dangerous(address.local(), address.domain()))
}

/// Whether there is a CR or an LF that is not part of a CRLF. Servers disagree on what ends a line there, and what is
/// text for one is a second message for another.
fn has_bare_line_end(content: &[u8]) -> bool {
    let mut ends = memchr2_iter(b'\r', b'\n', content);
    while let Some(at) = ends.next() {
        if content[at..].get(..2) != Some(b"\r\n") {
            return true;
        }
        // Its LF.
        ends.next();
    }
    false
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use crate::message::{ClientId, Email, Mailbox, MessageId, Priority, TraceContext, UnknownOutcome};

    fn message() -> Arc<Message> {
        let mailbox = |address| Mailbox { name: None, address: EmailAddress::parse(address).expect("an address") };
        let now = OffsetDateTime::UNIX_EPOCH;
        Arc::new(Message {
            id: MessageId::new_at(now),
            client: ClientId::new("default"),
            accepted_at: now,
            correlation_id: String::new(),
            trace: TraceContext::default(),
            priority: Priority::Normal,
            unknown_outcome: UnknownOutcome::Resend,
            email: Email {
                from: mailbox("from@sender.example"),
                to: vec![mailbox("to@there.example")],
                cc: Vec::new(),
                bcc: Vec::new(),
                reply_to: Vec::new(),
                subject: String::new(),
                text: None,
                html: None,
                attachments: Vec::new(),
                headers: Vec::new(),
                tags: Vec::new(),
                metadata: Default::default(),
                document_type: None,
            },
        })
    }

    #[test]
    fn content_that_could_hold_a_second_message_is_never_sent() {
        for end in [&b"\n.\r\n"[..], b"\r\n.\n", b"\r.\r", b"\n.\n", b"\r\n.\r"] {
            let content = [b"Subject: a\r\n\r\nb", end, b"MAIL FROM:<evil@there.example>\r\n"].concat();
            assert_eq!(Letter::of(message(), content).err(), Some(Decline::UnsafeContent), "{end:?}");
        }
        assert!(Letter::of(message(), b"Subject: a\r\n\r\n.\r\n".to_vec()).is_ok());
    }

    #[test]
    fn dots_that_begin_a_line_are_doubled_and_the_final_dot_follows() {
        let table: [(&[u8], &[u8]); 8] = [
            (b"", b".\r\n"),
            (b"a\r\n", b"a\r\n.\r\n"),
            (b"a", b"a\r\n.\r\n"),
            (b".", b"..\r\n.\r\n"),
            (b".\r\n.\r\n", b"..\r\n..\r\n.\r\n"),
            (b"a\r\n.b\r\nc.\r\n", b"a\r\n..b\r\nc.\r\n.\r\n"),
            (b"a\r\n..\r\n", b"a\r\n...\r\n.\r\n"),
            (b"\r\n\r\n.", b"\r\n\r\n..\r\n.\r\n"),
        ];
        for (content, expected) in table {
            assert_eq!(wire_form(content.to_vec()), expected, "{:?}", String::from_utf8_lossy(content));
        }
    }

    #[test]
    fn only_crlf_ends_a_line() {
        let table: [(&[u8], bool); 9] = [
            (b"", false),
            (b"a\r\nb\r\n", false),
            (b"\r\n\r\n", false),
            (b"a\nb", true),
            (b"a\rb", true),
            (b"a\r\r\n", true),
            (b"\n", true),
            (b"a\r", true),
            (b"a\r\n\n.\r\n", true),
        ];
        for (content, expected) in table {
            assert_eq!(has_bare_line_end(content), expected, "{content:?}");
        }
    }
}
