//! An email with something of everything, and the submission of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use postrider::{
    message::{
        Attachment, ClientId, Email, EmailAddress, Header, Mailbox, Message, MessageId, Priority, RecipientIndex,
        TraceContext, UnknownOutcome,
    },
    provider::Submission,
};
use time::macros::datetime;
use tokio::time::Instant;

/// The `traceparent` of every submission.
pub const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A mailbox.
pub fn mailbox(name: Option<&str>, address: &str) -> Mailbox {
    Mailbox { name: name.map(str::to_owned), address: EmailAddress::parse(address).unwrap() }
}

/// The email.
pub fn message() -> Message {
    let accepted_at = datetime!(2026-12-01 11:38:29.123456 UTC);
    Message {
        id: MessageId::new_at(accepted_at),
        client: ClientId::new("shop"),
        accepted_at,
        correlation_id: "order-4711".to_owned(),
        trace: TraceContext { traceparent: "00-of-the-call".to_owned(), tracestate: "vendor=1".to_owned() },
        priority: Priority::Normal,
        unknown_outcome: UnknownOutcome::Resend,
        email: Email {
            from: mailbox(Some("Магазин \"Ёж\""), "billing@shop.example"),
            to: vec![mailbox(Some("Анна Петрова"), "anna@example.com"), mailbox(None, "boris@пример.рф")],
            cc: vec![mailbox(None, "vera@example.com")],
            bcc: vec![mailbox(None, "archive@shop.example")],
            reply_to: vec![mailbox(None, "help@shop.example")],
            subject: "Счёт № 4711".to_owned(),
            text: Some("Во вложении.\r\n.\r\n".to_owned()),
            html: Some("<p>Во вложении</p><img src=\"cid:logo\">".to_owned()),
            attachments: vec![
                attachment("Счёт.pdf", "application/pdf", None, (0..200_000_u32).map(|n| (n % 251) as u8).collect()),
                attachment("logo.png", "image/png", Some("logo"), b"\x89PNG\n.\r\n".to_vec()),
                attachment("empty.txt", "text/plain", None, Vec::new()),
            ],
            headers: vec![
                Header { name: "X-Campaign".to_owned(), value: "one".to_owned() },
                Header { name: "X-Campaign".to_owned(), value: "zwei €".to_owned() },
            ],
            tags: vec!["invoice".to_owned()],
            metadata: BTreeMap::from([("order".to_owned(), "4711".to_owned())]),
            document_type: Some("INVOICE".to_owned()),
        },
    }
}

/// A file.
pub fn attachment(filename: &str, content_type: &str, content_id: Option<&str>, content: Vec<u8>) -> Attachment {
    Attachment {
        filename: filename.to_owned(),
        content_type: content_type.to_owned(),
        content: Bytes::from(content),
        content_id: content_id.map(str::to_owned),
    }
}

/// It, for those recipients.
pub fn submission(message: Message, recipients: &[u16]) -> Submission {
    Submission {
        message: Arc::new(message),
        recipients: recipients.iter().copied().map(RecipientIndex).collect(),
        deadline: Instant::now() + Duration::from_secs(20),
        traceparent: TRACEPARENT.to_owned(),
    }
}
