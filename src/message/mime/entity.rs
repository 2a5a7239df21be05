//! The tree of MIME parts: which part lies in which, and the headers of each.
//!
//! Owns the structure (RFC 2046, RFC 2387); how bytes and header lines are written is its neighbours'.

use super::{
    MimeError,
    body::{Encoding, write_base64, write_text},
    header::HeaderWriter,
    parameter::parameters,
};
use crate::message::{Attachment, Email, MediaType};

/// A part of a message, with what lies in it.
pub(super) enum Entity<'a> {
    /// A body.
    Text { subtype: &'static str, text: &'a str },
    /// A file.
    File { attachment: &'a Attachment, disposition: &'static str },
    /// Several parts.
    Multipart { kind: Multipart, parts: Vec<Entity<'a>> },
}

/// How parts belong together.
#[derive(Clone, Copy)]
pub(super) enum Multipart {
    /// Files beside the body.
    Mixed,
    /// The same in several forms, the best last.
    Alternative,
    /// The HTML and what it shows.
    Related,
}

impl<'a> Entity<'a> {
    /// The parts of an email: `mixed(alternative(text, related(html, images)), files)`, each level only where there is
    /// something to hold together.
    pub(super) fn of(email: &'a Email) -> Self {
        // Without HTML nothing can show an image: it is then a file like others.
        let shown = |a: &&Attachment| email.html.is_some() && a.content_id.is_some();
        let file = |disposition| move |attachment| Self::File { attachment, disposition };
        let images = email.attachments.iter().filter(|a| shown(a)).map(file("inline"));
        let files = email.attachments.iter().filter(|a| !shown(a)).map(file("attachment"));

        let text = email.text.as_deref().map(|text| Self::Text { subtype: "plain", text });
        let html = email.html.as_deref().map(|text| Self::Text { subtype: "html", text });
        let html = html.map(|html| Self::join(Multipart::Related, [html].into_iter().chain(images)));
        let nothing = || Self::Text { subtype: "plain", text: "" };
        let bodies = if text.is_none() && html.is_none() { Some(nothing()) } else { None };
        let body = Self::join(Multipart::Alternative, text.into_iter().chain(html).chain(bodies));
        Self::join(Multipart::Mixed, [body].into_iter().chain(files))
    }

    /// The parts as one: a single part needs no multipart round it.
    fn join(kind: Multipart, parts: impl Iterator<Item = Self>) -> Self {
        let mut parts: Vec<Self> = parts.collect();
        if parts.len() == 1 { parts.remove(0) } else { Self::Multipart { kind, parts } }
    }

    /// Appends the part's headers, an empty line and its body, without a line end after the last line. Boundaries are
    /// made of `seed`, which must be the message's own.
    pub(super) fn write(&self, seed: &str, out: &mut Vec<u8>) -> Result<(), MimeError> {
        match self {
            Self::Text { subtype, text } => write_text_part(subtype, text, out),
            Self::File { attachment, disposition } => write_file(attachment, disposition, out)?,
            Self::Multipart { kind, parts } => write_multipart(*kind, parts, seed, out)?,
        }
        Ok(())
    }
}

impl Multipart {
    fn subtype(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Alternative => "alternative",
            Self::Related => "related",
        }
    }
}

fn write_text_part(subtype: &str, text: &str, out: &mut Vec<u8>) {
    let encoding = Encoding::for_text(text);
    let mut headers = HeaderWriter::new(out);
    headers.tokens("Content-Type", [&format!("text/{subtype};"), "charset=utf-8"]);
    headers.tokens("Content-Transfer-Encoding", [encoding.as_str()]);
    out.extend_from_slice(b"\r\n");
    write_text(text, encoding, out);
}

fn write_file(attachment: &Attachment, disposition: &str, out: &mut Vec<u8>) -> Result<(), MimeError> {
    if attachment.filename.chars().any(char::is_control) {
        return Err(MimeError::Control("the name of an attachment"));
    }
    let mut headers = HeaderWriter::new(out);
    headers.tokens("Content-Type", content_type(attachment)?);
    headers.tokens("Content-Transfer-Encoding", [Encoding::Base64.as_str()]);
    let named = parameters("filename", &attachment.filename);
    headers.tokens("Content-Disposition", separated([disposition.to_owned()].into_iter().chain(named)));
    if let Some(id) = &attachment.content_id {
        if !id.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(MimeError::Control("the content id of an attachment"));
        }
        headers.tokens("Content-ID", [format!("<{id}>")]);
    }
    out.extend_from_slice(b"\r\n");
    write_base64(&attachment.content, out);
    Ok(())
}

/// The tokens of an attachment's Content-Type. The file's name is said there too: some readers look nowhere else.
fn content_type(attachment: &Attachment) -> Result<Vec<String>, MimeError> {
    let media = MediaType::parse(&attachment.content_type).map_err(|_| MimeError::ContentType)?;
    // What holds parts or a message must not be encoded (RFC 2046, section 5), and nothing here goes unencoded.
    if matches!(media.kind(), "multipart" | "message") {
        return Err(MimeError::ContentType);
    }
    let given = media.parameters().filter(|(name, _)| *name != "name" && !name.contains('*'));
    let mut parts = vec![media.essence().to_owned()];
    parts.extend(given.flat_map(|(name, value)| parameters(name, value)));
    parts.extend(parameters("name", &attachment.filename));
    Ok(separated(parts.into_iter()))
}

/// The parts, each but the last with a semicolon after it.
fn separated(parts: impl Iterator<Item = String>) -> Vec<String> {
    let mut parts: Vec<String> = parts.collect();
    let last = parts.len().saturating_sub(1);
    parts[..last].iter_mut().for_each(|part| part.push(';'));
    parts
}

fn write_multipart(kind: Multipart, parts: &[Entity<'_>], seed: &str, out: &mut Vec<u8>) -> Result<(), MimeError> {
    // "=_" occurs in no quoted-printable or base64, so no body can hold a boundary (RFC 2045, section 6.7).
    let boundary = format!("=_{seed}_{}", kind.subtype());
    let subtype = format!("multipart/{};", kind.subtype());
    let quoted = format!("boundary=\"{boundary}\"");
    let mut headers = HeaderWriter::new(out);
    match kind {
        // RFC 2387, section 3.1: the type of the part that shows the others.
        Multipart::Related => headers.tokens("Content-Type", [&subtype, "type=\"text/html\";", &quoted]),
        Multipart::Mixed | Multipart::Alternative => headers.tokens("Content-Type", [&subtype, &quoted]),
    }
    for part in parts {
        out.extend_from_slice(format!("\r\n--{boundary}\r\n").as_bytes());
        part.write(seed, out)?;
    }
    out.extend_from_slice(format!("\r\n--{boundary}--").as_bytes());
    Ok(())
}
