//! The email as the JSON of the gateway's contract (`deploy/gateway/openapi.yaml`).
//!
//! Owns the names and the order of the fields; sends nothing. Attachments come last, so that everything before them is
//! one short piece and their content can be encoded while it is sent.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    message::{Attachment, Email, Mailbox, Message, MessageId, RecipientIndex, mime::message_id_header},
    provider::web::{Payload, Piece},
};

/// The JSON of a message, to be delivered to those recipients only.
pub(super) fn render(message: &Message, recipients: &[(RecipientIndex, &str)]) -> serde_json::Result<Payload> {
    let request = Request::new(message, recipients);
    let mut json = Vec::with_capacity(expected_length(&message.email));
    serde_json::to_writer(&mut json, &request)?;
    reopen(&mut json);
    json.extend_from_slice(br#","attachments":["#);

    let mut pieces = Vec::new();
    for (place, attachment) in message.email.attachments.iter().enumerate() {
        if place > 0 {
            json.push(b',');
        }
        serde_json::to_writer(&mut json, &File::new(attachment))?;
        reopen(&mut json);
        json.extend_from_slice(br#","content":""#);
        pieces.push(Piece::Plain(std::mem::take(&mut json).into()));
        pieces.push(Piece::Base64(attachment.content.clone()));
        json.extend_from_slice(br#""}"#);
    }
    json.extend_from_slice(b"]}");
    pieces.push(Piece::Plain(json.into()));
    Ok(Payload::new(pieces))
}

/// Takes back the brace that closed an object with at least one field, so that another field can follow.
fn reopen(json: &mut Vec<u8>) {
    let brace = json.pop();
    debug_assert_eq!(brace, Some(b'}'));
}

fn expected_length(email: &Email) -> usize {
    let bodies = email.text.as_ref().map_or(0, String::len) + email.html.as_ref().map_or(0, String::len);
    1024 + bodies + bodies / 8 + 160 * email.recipient_count()
}

#[derive(Serialize)]
struct Request<'a> {
    #[serde(serialize_with = "as_text")]
    message_id: MessageId,
    internet_message_id: String,
    #[serde(serialize_with = "as_rfc3339")]
    date: OffsetDateTime,
    recipients: Vec<Recipient<'a>>,
    from: Address<'a>,
    to: Vec<Address<'a>>,
    cc: Vec<Address<'a>>,
    bcc: Vec<Address<'a>>,
    reply_to: Vec<Address<'a>>,
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    headers: Vec<Header<'a>>,
    tags: &'a [String],
    metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_type: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn new(message: &'a Message, recipients: &[(RecipientIndex, &'a str)]) -> Self {
        let email = &message.email;
        let header = |header: &'a crate::message::Header| Header { name: &header.name, value: &header.value };
        Self {
            message_id: message.id,
            internet_message_id: message_id_header(message),
            date: message.accepted_at,
            recipients: recipients.iter().map(|&(index, address)| Recipient { index: index.0, address }).collect(),
            from: Address::new(&email.from),
            to: addresses(&email.to),
            cc: addresses(&email.cc),
            bcc: addresses(&email.bcc),
            reply_to: addresses(&email.reply_to),
            subject: &email.subject,
            text: email.text.as_deref(),
            html: email.html.as_deref(),
            headers: email.headers.iter().map(header).collect(),
            tags: &email.tags,
            metadata: &email.metadata,
            document_type: email.document_type.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct Recipient<'a> {
    index: u16,
    address: &'a str,
}

#[derive(Serialize)]
struct Address<'a> {
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

impl<'a> Address<'a> {
    fn new(mailbox: &'a Mailbox) -> Self {
        Self { address: mailbox.address.as_str(), name: mailbox.name.as_deref() }
    }
}

fn addresses(mailboxes: &[Mailbox]) -> Vec<Address<'_>> {
    mailboxes.iter().map(Address::new).collect()
}

#[derive(Serialize)]
struct Header<'a> {
    name: &'a str,
    value: &'a str,
}

/// An attachment without its content, which follows apart.
#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    content_type: &'a str,
    disposition: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_id: Option<&'a str>,
}

impl<'a> File<'a> {
    fn new(attachment: &'a Attachment) -> Self {
        let content_id = attachment.content_id.as_deref();
        Self {
            filename: &attachment.filename,
            content_type: &attachment.content_type,
            disposition: if content_id.is_some() { "inline" } else { "attachment" },
            content_id,
        }
    }
}

fn as_text<S: Serializer>(id: &MessageId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

/// To the second, as the Date header of an email has it.
fn as_rfc3339<S: Serializer>(time: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    let text = time.truncate_to_second().format(&Rfc3339).map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&text)
}
