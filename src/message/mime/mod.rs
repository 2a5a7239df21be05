//! The MIME form of a message: the same bytes whenever it is rendered.
//!
//! Owns the headers and the encoding; knows nothing of envelopes or providers.
//!
//! What comes out holds no byte beyond ASCII (except an address whose local part needs SMTPUTF8, RFC 6532), no CR or LF
//! but in pairs, no line of more than 998 characters, and no line that begins with a dot: bodies and attachments are
//! always encoded, so that no content can end the SMTP data or smuggle a command into the session.
//!
//! The encodings are those of `email-encoding` and `quoted_printable`, which lettre builds on. Its message builder is not
//! used: it keeps only the last of several headers of one name, puts any number of addresses on one line, and writes
//! the name of a file in Content-Type as an encoded word, which breaks the type.

mod body;
mod entity;
mod header;
#[cfg(test)]
mod tests;

use email_encoding::body::base64::encoded_len;
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc2822};

use super::{Email, Mailbox, Message};

/// Why a message has no MIME form. A message that went through [`crate::policy`] always has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// A control character where a header would carry it on.
    #[error("{0} has a control character")]
    Control(&'static str),
    /// The name of a header that is none.
    #[error("the name of a header has a character that no header's name may have")]
    HeaderName,
    /// The media type of an attachment that is none, or is one that cannot be encoded.
    #[error("the content type of an attachment is not one that can be attached")]
    ContentType,
    /// A time of acceptance that no Date header can hold.
    #[error("the time of acceptance is not one that a Date header can hold")]
    Date,
}

/// The message as MIME (RFC 5322, RFC 2045 to 2047, RFC 2231), with CRLF line ends.
///
/// Every call gives the same bytes: Message-ID and boundaries come from the message's id, Date is when it was accepted.
/// Recipients in bcc, tags and metadata are in no header.
pub fn render(message: &Message) -> Result<Vec<u8>, MimeError> {
    let email = &message.email;
    let mut out = String::with_capacity(usize::try_from(encoded_size_estimate(email)).unwrap_or(0));
    header::write_mailboxes(&mut out, "From", std::slice::from_ref(&email.from))?;
    if email.to.is_empty() && email.cc.is_empty() {
        // RFC 5322, section 3.6.3 does not ask for it, but many readers and spam filters do.
        out.push_str("To: undisclosed-recipients:;\r\n");
    }
    header::write_mailboxes(&mut out, "To", &email.to)?;
    header::write_mailboxes(&mut out, "Cc", &email.cc)?;
    header::write_mailboxes(&mut out, "Reply-To", &email.reply_to)?;
    if !email.subject.is_empty() {
        header::write_subject(&mut out, &email.subject)?;
    }
    out.push_str(&format!("Date: {}\r\nMessage-ID: {}\r\n", date(message.accepted_at)?, message_id_header(message)));
    for header in &email.headers {
        header::write_custom(&mut out, &header.name, &header.value)?;
    }
    out.push_str("MIME-Version: 1.0\r\n");
    entity::of(email, &message.id.as_uuid().simple().to_string())(&mut out)?;
    // SMTP data ends with a line end; a body without one would get it there, and a signature would miss it.
    if !out.ends_with("\r\n") {
        out.push_str("\r\n");
    }
    Ok(out.into_bytes())
}

/// The value of the header Message-ID: the message's id at the sender's domain. The same for the message's life,
/// whichever provider sends it, so that a receiver can recognise a repeat.
pub fn message_id_header(message: &Message) -> String {
    format!("<{}@{}>", message.id, message.email.from.address.domain())
}

/// How many bytes the email takes as MIME: never less than [`render`] gives, and little more.
pub fn encoded_size_estimate(email: &Email) -> u64 {
    let words = |text: &str| 3 * text.len() + 100;
    let mailbox = |m: &Mailbox| m.address.as_str().len() + 100 + m.name.as_deref().map_or(0, words);
    let named = [&email.to, &email.cc, &email.reply_to].into_iter().flatten().chain([&email.from]);
    // Structure: each part's delimiter and fixed headers.
    let mut size = 2_000 + words(&email.subject) + email.from.address.domain().len();
    size += named.map(mailbox).sum::<usize>();
    size += email.headers.iter().map(|h| h.name.len() + words(&h.value)).sum::<usize>();
    size +=
        [&email.text, &email.html].into_iter().flatten().map(|text| body::encoded_text_estimate(text)).sum::<usize>();
    for attachment in &email.attachments {
        let labels = attachment.filename.len() * 8 + attachment.content_type.len() * 8 + 500;
        size += labels + attachment.content_id.as_deref().map_or(0, str::len);
        size += encoded_len(attachment.content.len());
    }
    u64::try_from(size).unwrap_or(u64::MAX)
}

fn date(time: OffsetDateTime) -> Result<String, MimeError> {
    time.to_offset(UtcOffset::UTC).format(&Rfc2822).map_err(|_| MimeError::Date)
}
