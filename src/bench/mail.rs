//! The email that the scenarios send: one recipient, a plain text of 4 KB, in one scenario with a large attachment.
//!
//! Owns it in its two forms, as a caller's request and as the message that it becomes.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use prost::Message as _;
use time::OffsetDateTime;

use crate::{
    config::DEFAULT_CHAIN,
    message::{ClientId, Email, EmailAddress, Mailbox, Message, MessageId, Priority, TraceContext, UnknownOutcome},
    outbox::NewMessage,
    proto::v1 as pb,
};

/// How long the text is, in bytes.
const TEXT_BYTES: usize = 4096;

/// How large the large attachment is, in bytes.
const ATTACHMENT_BYTES: usize = 5_000_000;

/// The client of messages that no caller sent.
pub(super) const CLIENT: &str = "bench";

const SENDER: &str = "billing@shop.example";
const RECIPIENT: &str = "customer@mail.example";
const SUBJECT: &str = "Your invoice no. ";

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let line = "Thank you for your order. The invoice is attached, and payable within two weeks.\r\n";
    line.chars().cycle().take(TEXT_BYTES).collect()
});

/// As hard to compress as a document full of pictures.
static ATTACHMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut content = vec![0; ATTACHMENT_BYTES];
    rand::fill(&mut content[..]);
    let form = b"%PDF-1.7\n";
    content[..form.len()].copy_from_slice(form);
    content.into()
});

/// The request of that number.
pub(super) fn request(number: u64) -> pb::SendEmailRequest {
    let mailbox = |address: &str| pb::Mailbox { address: address.to_owned(), name: String::new() };
    pb::SendEmailRequest {
        email: Some(pb::Email {
            from: Some(mailbox(SENDER)),
            to: vec![mailbox(RECIPIENT)],
            subject: format!("{SUBJECT}{number}"),
            text: TEXT.clone(),
            ..pb::Email::default()
        }),
        ..pb::SendEmailRequest::default()
    }
}

/// The request of that number with a large attachment.
pub(super) fn large_request(number: u64) -> pb::SendEmailRequest {
    let mut request = request(number);
    if let Some(email) = &mut request.email {
        email.attachments.push(pb::Attachment {
            filename: "catalogue.pdf".to_owned(),
            content_type: "application/pdf".to_owned(),
            content: ATTACHMENT.clone(),
            content_id: String::new(),
        });
    }
    request
}

/// What the floors write where Postrider writes that mail.
pub(super) fn content(number: u64) -> Vec<u8> {
    request(number).email.unwrap_or_default().encode_to_vec()
}

/// The number of the mail with that subject, if it is one of these.
pub(super) fn number(subject: &str) -> Option<u64> {
    subject.strip_prefix(SUBJECT)?.parse().ok()
}

/// The message of that number, as if it had been accepted at that time.
pub(super) fn message(number: u64, accepted_at: OffsetDateTime) -> Message {
    static ADDRESSES: LazyLock<[Option<EmailAddress>; 2]> =
        LazyLock::new(|| [SENDER, RECIPIENT].map(|address| EmailAddress::parse(address).ok()));
    let mailboxes = ADDRESSES.clone().map(|address| Mailbox { name: None, address: address.expect("both are valid") });
    let [from, to] = mailboxes;
    let id = MessageId::new_at(accepted_at);
    Message {
        id,
        client: ClientId::new(CLIENT),
        accepted_at,
        correlation_id: id.to_string(),
        trace: TraceContext::default(),
        priority: Priority::Normal,
        unknown_outcome: UnknownOutcome::Resend,
        email: Email {
            from,
            to: vec![to],
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: Vec::new(),
            subject: format!("{SUBJECT}{number}"),
            text: Some(TEXT.clone()),
            html: None,
            attachments: Vec::new(),
            headers: Vec::new(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            document_type: None,
        },
    }
}

/// The message of that number, to be accepted at that time.
pub(super) fn new_message(number: u64, accepted_at: OffsetDateTime) -> NewMessage {
    NewMessage {
        message: Arc::new(message(number, accepted_at)),
        chain: DEFAULT_CHAIN.to_owned(),
        idempotency: None,
        scheduled_for: None,
        send_at: accepted_at,
        expire_at: None,
        give_up_at: accepted_at + time::Duration::days(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_back_from_the_subject() {
        let email = request(17).email.unwrap_or_default();
        assert_eq!(number(&email.subject), Some(17));
        assert_eq!(number("Another"), None);
        assert_eq!(message(18, OffsetDateTime::UNIX_EPOCH).email.subject, "Your invoice no. 18");
        assert_eq!(email.text.len(), TEXT_BYTES);
    }
}
