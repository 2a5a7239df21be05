//! An email of RFC 5322 (an .eml file) as a request.
//!
//! Owns which parts are taken over; what may be sent is for the service to say.

use std::{io::Read, path::Path};

use bytes::Bytes;
use mail_parser::{
    Address, Encoding, Message, MessageParser, MessagePart, MessagePartId, MimeHeaders,
    decoders::{base64::base64_decode, quoted_printable::quoted_printable_decode},
};

use super::Failure;
use crate::proto::v1;

/// The headers that are taken over besides those with a field of their own. The others are mostly traces of the
/// programs that a file went through, and no business of a new receiver's.
const FURTHER_HEADERS: [&str; 5] =
    ["In-Reply-To", "References", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Id"];

/// Reads an email.
pub(super) fn read(path: &Path) -> Result<v1::Email, Failure> {
    parse(&read_file(path)?).ok_or_else(|| Failure::Usage(format!("{} is not an email", path.display())))
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

fn parse(bytes: &[u8]) -> Option<v1::Email> {
    let parser =
        FURTHER_HEADERS.into_iter().fold(MessageParser::new().with_minimal_headers(), MessageParser::header_text);
    let message = parser.parse(bytes)?;
    let html = joined(&message, &message.html_body, |part| part.is_text_html());
    let headers = FURTHER_HEADERS.iter().filter_map(|&name| {
        let value = message.header(name)?.as_text()?.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(v1::Header { name: name.to_owned(), value })
    });
    Some(v1::Email {
        from: mailboxes(message.from()).into_iter().next(),
        to: mailboxes(message.to()),
        cc: mailboxes(message.cc()),
        bcc: mailboxes(message.bcc()),
        reply_to: mailboxes(message.reply_to()),
        subject: message.subject().unwrap_or_default().to_owned(),
        text: joined(&message, &message.text_body, |part| part.is_text() && !part.is_text_html()),
        attachments: message.attachments().map(|part| attachment(&message, part, &html)).collect(),
        headers: headers.collect(),
        html,
        ..Default::default()
    })
}

/// The bodies of a kind as one: an email may have several, with pictures between them. The parser names a body of one
/// kind for the other where that is missing, and a text made from HTML is not the sender's.
fn joined(message: &Message<'_>, parts: &[MessagePartId], is_of_kind: impl Fn(&MessagePart<'_>) -> bool) -> String {
    let parts = parts.iter().filter_map(|id| message.part(*id)).filter(|part| is_of_kind(part));
    parts.filter_map(MessagePart::text_contents).collect::<Vec<_>>().join("\n")
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

fn attachment(message: &Message<'_>, part: &MessagePart<'_>, html: &str) -> v1::Attachment {
    // Some programs give every attachment a Content-ID: only one that the HTML shows is shown inside it.
    let shown = part.content_id().filter(|id| html.contains(&format!("cid:{id}")));
    v1::Attachment {
        filename: part.attachment_name().unwrap_or("attachment").to_owned(),
        content_type: content_type(part),
        content: Bytes::from(content(message, part)),
        content_id: shown.unwrap_or_default().to_owned(),
    }
}

fn content_type(part: &MessagePart<'_>) -> String {
    let Some(declared) = part.content_type() else { return String::new() };
    let mut text = declared.ctype().to_owned();
    if let Some(subtype) = declared.subtype() {
        text.push_str(&format!("/{subtype}"));
    }
    if let Some(charset) = declared.attribute("charset") {
        text.push_str(&format!("; charset={charset}"));
    }
    text
}

/// The bytes as they were attached. Those of a text are decoded here, since the parser turns it into UTF-8.
fn content(message: &Message<'_>, part: &MessagePart<'_>) -> Vec<u8> {
    let (start, end) = (part.raw_body_offset() as usize, part.raw_end_offset() as usize);
    let raw = message.raw_message().get(start..end).filter(|_| part.is_text());
    let decoded = raw.and_then(|raw| match part.encoding {
        Encoding::None => Some(raw.to_vec()),
        Encoding::QuotedPrintable => quoted_printable_decode(raw),
        Encoding::Base64 => base64_decode(raw),
    });
    decoded.unwrap_or_else(|| part.contents().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(lines: &str) -> v1::Email {
        parse(lines.replace('\n', "\r\n").as_bytes()).expect("an email")
    }

    #[test]
    fn bodies_round_a_picture_are_one_body() {
        let email = email(
            "From: a@b.example\nContent-Type: multipart/mixed; boundary=x\n\n\
             --x\nContent-Type: text/plain\n\nBefore.\n\
             --x\nContent-Type: image/png\nContent-Disposition: inline\n\npng\n\
             --x\nContent-Type: text/plain\n\nAfter.\n--x--\n",
        );
        assert_eq!((email.text.as_str(), email.html.as_str()), ("Before.\nAfter.", ""));
        assert_eq!(email.attachments.len(), 1);
    }

    #[test]
    fn a_body_of_one_kind_is_not_made_into_the_other() {
        let html = email("From: a@b.example\nContent-Type: text/html\n\n<p>Hello</p>\n");
        assert_eq!((html.text.as_str(), html.html.trim()), ("", "<p>Hello</p>"));
        let text = email("From: a@b.example\n\nHello\n");
        assert_eq!((text.text.trim(), text.html.as_str()), ("Hello", ""));
    }

    #[test]
    fn only_what_the_html_shows_is_shown_inside_it() {
        let email = email(
            "From: a@b.example\nContent-Type: multipart/mixed; boundary=x\n\n\
             --x\nContent-Type: text/html\n\n<img src=\"cid:logo@b\">\n\
             --x\nContent-Type: image/png; name=logo.png\nContent-ID: <logo@b>\n\npng\n\
             --x\nContent-Type: application/pdf; name=a.pdf\nContent-ID: <other@b>\n\n%PDF-\n--x--\n",
        );
        let found: Vec<_> = email.attachments.iter().map(|a| (a.filename.as_str(), a.content_id.as_str())).collect();
        assert_eq!(found, [("logo.png", "logo@b"), ("a.pdf", "")]);
    }

    #[test]
    fn an_attached_text_keeps_its_bytes_and_its_charset() {
        for (encoding, body) in [("quoted-printable", "=CF=F0=E8=\n=E2=E5=F2"), ("base64", "z/Do\n4uXy")] {
            let email = email(&format!(
                "From: a@b.example\nContent-Type: multipart/mixed; boundary=x\n\n\
                 --x\nContent-Type: text/plain\n\nSee there.\n\
                 --x\nContent-Type: text/plain; charset=windows-1251\nContent-Transfer-Encoding: {encoding}\n\
                 Content-Disposition: attachment; filename=a.txt\n\n{body}\n--x--\n"
            ));
            let attachment = &email.attachments[0];
            assert_eq!(attachment.content.as_ref(), b"\xcf\xf0\xe8\xe2\xe5\xf2", "{encoding}");
            assert_eq!(attachment.content_type, "text/plain; charset=windows-1251");
        }
    }

    #[test]
    fn headers_for_the_receiver_are_taken_over_decoded_and_on_one_line() {
        let email = email(
            "From: a@b.example\nReceived: from x\nX-Spam: no\nReferences: <1@b>\n <2@b>\n\
             List-Id: =?utf-8?q?Caf=C3=A9?= <list.b.example>\n\nHello\n",
        );
        let found: Vec<_> = email.headers.iter().map(|h| (h.name.as_str(), h.value.as_str())).collect();
        assert_eq!(found, [("References", "<1@b> <2@b>"), ("List-Id", "Café <list.b.example>")]);
    }
}
