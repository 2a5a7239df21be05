//! Content as bytes: what is needed to send a message again, whoever reads it.
//!
//! Owns the stored form and the reading of it, the columns beside it included, so that a message comes back as it was
//! accepted. Writes no row: that is `accept`.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message as _;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    Outbox, OutboxError,
    days::id_range,
    error::{read_priority, unreadable},
};
use crate::{
    message::{
        Attachment, ClientId, Email, EmailAddress, Header, Mailbox, Message, MessageId, TraceContext, UnknownOutcome,
    },
    proto::stored,
};

/// The version of the stored form that is written, and the newest that is read. Fields are only ever added to a
/// version; it changes when an older reader would send something else than what was accepted.
pub(super) const VERSION: i16 = 1;

/// A message's row.
struct Row {
    id: Uuid,
    client: String,
    accepted_at: OffsetDateTime,
    priority: String,
    unknown_outcome: String,
    document_type: Option<String>,
    correlation_id: String,
    traceparent: String,
    tracestate: String,
    content_version: i16,
    content: Vec<u8>,
}

impl Outbox {
    /// Reads messages, one answer for each id: what cannot be read does not keep the others back.
    pub async fn contents(
        &self,
        ids: &[MessageId],
    ) -> Result<Vec<(MessageId, Result<Message, OutboxError>)>, OutboxError> {
        let uuids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let (least, greatest) = id_range(&uuids);
        let statement = || async {
            sqlx::query_file_as!(Row, "src/outbox/contents.sql", &uuids, least, greatest)
                .fetch_all(&self.database)
                .await
        };
        let rows = self.database.repeat(statement).await?;
        let mut found: HashMap<Uuid, Row> = rows.into_iter().map(|row| (row.id, row)).collect();
        let read = |id: MessageId| match found.remove(&id.as_uuid()) {
            Some(row) => (id, row.into_message(id)),
            None => (id, Err(unreadable("there is no content under its id"))),
        };
        Ok(ids.iter().copied().map(read).collect())
    }
}

impl Row {
    fn into_message(self, id: MessageId) -> Result<Message, OutboxError> {
        if self.content_version > VERSION {
            return Err(OutboxError::NewerVersion { stored: self.content_version, reads: VERSION });
        }
        Ok(Message {
            id,
            client: ClientId::new(&self.client),
            accepted_at: self.accepted_at,
            correlation_id: self.correlation_id,
            trace: TraceContext { traceparent: self.traceparent, tracestate: self.tracestate },
            priority: read_priority(&self.priority)?,
            unknown_outcome: parse_unknown_outcome(&self.unknown_outcome)?,
            email: decode(Bytes::from(self.content), self.document_type)?,
        })
    }
}

/// The word for it in the tables.
pub(super) fn unknown_outcome_word(policy: UnknownOutcome) -> &'static str {
    match policy {
        UnknownOutcome::Resend => "RESEND",
        UnknownOutcome::Hold => "HOLD",
    }
}

fn parse_unknown_outcome(word: &str) -> Result<UnknownOutcome, OutboxError> {
    match word {
        "RESEND" => Ok(UnknownOutcome::Resend),
        "HOLD" => Ok(UnknownOutcome::Hold),
        other => Err(unreadable(format_args!("unknown policy {other}"))),
    }
}

/// The stored form of an email, in [`VERSION`]. The document type stands beside it.
pub(super) fn encode(email: &Email) -> Vec<u8> {
    let mailboxes = |list: &[Mailbox]| list.iter().map(from_mailbox).collect();
    stored::Content {
        from: Some(from_mailbox(&email.from)),
        to: mailboxes(&email.to),
        cc: mailboxes(&email.cc),
        bcc: mailboxes(&email.bcc),
        reply_to: mailboxes(&email.reply_to),
        subject: email.subject.clone(),
        text: email.text.clone(),
        html: email.html.clone(),
        attachments: email.attachments.iter().map(from_attachment).collect(),
        headers: email.headers.iter().map(from_header).collect(),
        tags: email.tags.clone(),
        metadata: email.metadata.clone().into_iter().collect(),
    }
    .encode_to_vec()
}

fn decode(bytes: Bytes, document_type: Option<String>) -> Result<Email, OutboxError> {
    let content = stored::Content::decode(bytes).map_err(unreadable)?;
    let from = content.from.ok_or_else(|| unreadable("it has no sender"))?;
    Ok(Email {
        from: into_mailbox(from)?,
        to: into_mailboxes(content.to)?,
        cc: into_mailboxes(content.cc)?,
        bcc: into_mailboxes(content.bcc)?,
        reply_to: into_mailboxes(content.reply_to)?,
        subject: content.subject,
        text: content.text,
        html: content.html,
        attachments: content.attachments.into_iter().map(into_attachment).collect(),
        headers: content.headers.into_iter().map(into_header).collect(),
        tags: content.tags,
        metadata: content.metadata.into_iter().collect(),
        document_type,
    })
}

fn from_mailbox(mailbox: &Mailbox) -> stored::Mailbox {
    stored::Mailbox { address: mailbox.address.as_str().to_owned(), name: mailbox.name.clone() }
}

fn into_mailbox(mailbox: stored::Mailbox) -> Result<Mailbox, OutboxError> {
    let address = EmailAddress::parse(&mailbox.address).map_err(|e| unreadable(format_args!("an address {e}")))?;
    Ok(Mailbox { name: mailbox.name, address })
}

fn into_mailboxes(mailboxes: Vec<stored::Mailbox>) -> Result<Vec<Mailbox>, OutboxError> {
    mailboxes.into_iter().map(into_mailbox).collect()
}

fn from_attachment(attachment: &Attachment) -> stored::Attachment {
    stored::Attachment {
        filename: attachment.filename.clone(),
        content_type: attachment.content_type.clone(),
        content: attachment.content.clone(),
        content_id: attachment.content_id.clone(),
    }
}

fn into_attachment(attachment: stored::Attachment) -> Attachment {
    Attachment {
        filename: attachment.filename,
        content_type: attachment.content_type,
        content: attachment.content,
        content_id: attachment.content_id,
    }
}

fn from_header(header: &Header) -> stored::Header {
    stored::Header { name: header.name.clone(), value: header.value.clone() }
}

fn into_header(header: stored::Header) -> Header {
    Header { name: header.name, value: header.value }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn mailbox(name: Option<&str>, address: &str) -> Mailbox {
        Mailbox { name: name.map(str::to_owned), address: EmailAddress::parse(address).unwrap() }
    }

    fn email() -> Email {
        Email {
            from: mailbox(Some("Счета"), "billing@example.com"),
            to: vec![mailbox(None, "a@example.org"), mailbox(Some("B"), "b@example.org")],
            cc: vec![mailbox(None, "c@example.org")],
            bcc: vec![mailbox(None, "d@bücher.example")],
            reply_to: vec![mailbox(None, "reply@example.com")],
            subject: "Счёт № 7".into(),
            text: Some(String::new()),
            html: None,
            attachments: vec![Attachment {
                filename: "счёт.pdf".into(),
                content_type: "application/pdf".into(),
                content: Bytes::from_static(b"%PDF-1.7\n\0\xff"),
                content_id: None,
            }],
            headers: vec![Header { name: "X-A".into(), value: "1".into() }],
            tags: vec!["invoice".into()],
            metadata: [("order".to_owned(), "7".to_owned())].into(),
            document_type: Some("INVOICE".into()),
        }
    }

    #[test]
    fn an_email_is_read_back_as_it_was_written() {
        let bytes = Bytes::from(encode(&email()));
        assert!(decode(bytes, Some("INVOICE".into())).unwrap() == email());
    }

    #[test]
    fn damaged_content_is_said_to_be_unreadable() {
        let whole = encode(&email());
        let cut_off = Bytes::copy_from_slice(&whole[..whole.len() - 1]);
        assert!(matches!(decode(cut_off, None), Err(OutboxError::Unreadable(_))));
        assert!(matches!(decode(Bytes::new(), None), Err(OutboxError::Unreadable(_))), "nothing has no sender");
    }
}
