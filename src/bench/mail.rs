//! The email that every scenario sends: one recipient, a plain text of 4 KB.
//!
//! Owns it in its two forms, as a caller's request and as the message that it becomes.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use time::OffsetDateTime;

use crate::{
    config::DEFAULT_CHAIN,
    message::{ClientId, Email, EmailAddress, Mailbox, Message, MessageId, Priority, TraceContext, UnknownOutcome},
    outbox::NewMessage,
    proto::v1 as pb,
};

/// How long the text is, in bytes.
const TEXT_BYTES: usize = 4096;

const SENDER: &str = "billing@shop.example";
const RECIPIENT: &str = "customer@mail.example";
const SUBJECT: &str = "Your invoice no. ";

static TEXT: LazyLock<String> = LazyLock::new(|| {
    let line = "Thank you for your order. The invoice is attached, and payable within two weeks.\r\n";
    line.chars().cycle().take(TEXT_BYTES).collect()
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
        client: ClientId::new("bench"),
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
