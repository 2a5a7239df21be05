//! An email of RFC 5322 (an .eml file) as a request.
//!
//! Owns which parts are taken over; what may be sent is for the service to say.

use std::{io::Read, path::Path};

use bytes::Bytes;
use mail_parser::{Address, MessageParser, MessagePart, MimeHeaders};

use super::Failure;
use crate::proto::v1;

/// The headers that are taken over besides those with a field of their own.
const FURTHER_HEADERS: [&str; 5] =
    ["In-Reply-To", "References", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Id"];

/// Reads an email.
pub(super) fn read(path: &Path) -> Result<v1::Email, Failure> {
    let bytes = read_file(path)?;
    let message = MessageParser::default()
        .parse(&bytes)
        .ok_or_else(|| Failure::Usage(format!("{} is not an email", path.display())))?;
    let headers = FURTHER_HEADERS
        .iter()
        .filter_map(|&name| {
            let value = message.header_raw(name)?.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(v1::Header { name: name.to_owned(), value })
        })
        .collect();
    let is_inline = |part: &MessagePart| part.content_id().is_some();
    let attachments = message.attachments().map(|part| attachment(part, is_inline(part))).collect();
    Ok(v1::Email {
        from: mailboxes(message.from()).into_iter().next(),
        to: mailboxes(message.to()),
        cc: mailboxes(message.cc()),
        bcc: mailboxes(message.bcc()),
        reply_to: mailboxes(message.reply_to()),
        subject: message.subject().unwrap_or_default().to_owned(),
        text: body(&message, false),
        html: body(&message, true),
        attachments,
        headers,
        ..Default::default()
    })
}

/// The bytes of a file, or of standard input for "-".
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |error: std::io::Error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
    if path != Path::new("-") {
        return std::fs::read(path).map_err(wrong);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(wrong)?;
    Ok(bytes)
}

/// The body of that kind, if the email really has one: a text made from HTML is not the sender's.
fn body(message: &mail_parser::Message<'_>, html: bool) -> String {
    let part = if html { message.html_part(0) } else { message.text_part(0) };
    match part {
        Some(part) if part.is_text_html() == html => part.text_contents().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

fn mailboxes(address: Option<&Address<'_>>) -> Vec<v1::Mailbox> {
    address
        .into_iter()
        .flat_map(Address::iter)
        .filter_map(|addr| {
            let name = addr.name.as_deref().unwrap_or_default().to_owned();
            Some(v1::Mailbox { address: addr.address.as_deref()?.to_owned(), name })
        })
        .collect()
}

fn attachment(part: &MessagePart<'_>, inline: bool) -> v1::Attachment {
    let content_type = part.content_type().map(|t| match t.subtype() {
        Some(subtype) => format!("{}/{subtype}", t.ctype()),
        None => t.ctype().to_owned(),
    });
    v1::Attachment {
        filename: part.attachment_name().unwrap_or("attachment").to_owned(),
        content_type: content_type.unwrap_or_default(),
        content: Bytes::copy_from_slice(part.contents()),
        content_id: if inline { part.content_id().unwrap_or_default().to_owned() } else { String::new() },
    }
}
