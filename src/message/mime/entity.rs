//! The tree of MIME parts: which part lies in which, and the headers of each.
//!
//! Owns the structure (RFC 2046, RFC 2387); how bytes and header lines are written is its neighbours'.

use std::{fmt::Write, iter::once};

use super::{
    MimeError,
    body::{encode_text, write_base64},
    header,
};
use crate::message::{Attachment, Email, MediaType};

/// A part of a message: appends its headers, an empty line and its body, without a line end after the last line.
pub(super) type Part<'a> = Box<dyn Fn(&mut String) -> Result<(), MimeError> + 'a>;

/// The parts of an email: `mixed(alternative(text, related(html, images)), files)`, each level only where there is
/// something to hold together. Boundaries are made of `seed`, which must be the message's own.
pub(super) fn of<'a>(email: &'a Email, seed: &'a str) -> Part<'a> {
    // Without HTML nothing can show an image: it is then a file like others.
    let shown = |a: &&Attachment| email.html.is_some() && a.content_id.is_some();
    let (images, files): (Vec<_>, Vec<_>) = email.attachments.iter().partition(shown);
    let images = images.into_iter().map(|image| file(image, "inline"));
    let files = files.into_iter().map(|it| file(it, "attachment"));

    let html = email.html.as_deref().map(|html| join("related", seed, once(text("html", html)).chain(images)));
    let plain = email.text.as_deref().or(if html.is_none() { Some("") } else { None });
    let body = join("alternative", seed, plain.map(|plain| text("plain", plain)).into_iter().chain(html));
    join("mixed", seed, once(body).chain(files))
}

/// The parts as one: a single part needs no multipart round it.
fn join<'a>(kind: &'static str, seed: &'a str, parts: impl Iterator<Item = Part<'a>>) -> Part<'a> {
    let mut parts: Vec<_> = parts.collect();
    if parts.len() == 1 {
        return parts.remove(0);
    }
    Box::new(move |out| {
        // "=_" occurs in no quoted-printable or base64, so no body can hold a boundary (RFC 2045, section 6.7).
        let boundary = format!("=_{seed}_{kind}");
        header::write(out, "Content-Type", |w| {
            write!(w, "multipart/{kind}")?;
            if kind == "related" {
                // RFC 2387, section 3.1: the type of the part that shows the others.
                header::write_parameter(w, "type", "text/html")?;
            }
            header::write_parameter(w, "boundary", &boundary)
        });
        for part in &parts {
            out.push_str(&format!("\r\n--{boundary}\r\n"));
            part(out)?;
        }
        out.push_str(&format!("\r\n--{boundary}--"));
        Ok(())
    })
}

fn text<'a>(subtype: &'static str, text: &'a str) -> Part<'a> {
    Box::new(move |out| {
        let (encoding, body) = encode_text(text);
        out.push_str(&format!("Content-Type: text/{subtype}; charset=utf-8\r\n"));
        out.push_str(&format!("Content-Transfer-Encoding: {encoding}\r\n\r\n{body}"));
        Ok(())
    })
}

fn file<'a>(attachment: &'a Attachment, disposition: &'static str) -> Part<'a> {
    Box::new(move |out| {
        header::refuse_control(&attachment.filename, "the name of an attachment")?;
        write_content_type(attachment, out)?;
        out.push_str("Content-Transfer-Encoding: base64\r\n");
        header::write(out, "Content-Disposition", |w| {
            w.write_str(disposition)?;
            header::write_filename(w, "filename", &attachment.filename)
        });
        if let Some(id) = &attachment.content_id {
            if !id.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(MimeError::Control("the content id of an attachment"));
            }
            out.push_str(&format!("Content-ID: <{id}>\r\n"));
        }
        out.push_str("\r\n");
        write_base64(&attachment.content, out);
        Ok(())
    })
}

/// The file's name is said in Content-Type too: some readers look nowhere else.
fn write_content_type(attachment: &Attachment, out: &mut String) -> Result<(), MimeError> {
    let media = MediaType::parse(&attachment.content_type).map_err(|_| MimeError::ContentType)?;
    // What holds parts or a message must not be encoded (RFC 2046, section 5), and nothing here goes unencoded.
    if matches!(media.kind(), "multipart" | "message") {
        return Err(MimeError::ContentType);
    }
    header::write(out, "Content-Type", |w| {
        w.write_str(media.essence())?;
        let mut given = media.parameters().filter(|(name, _)| *name != "name" && !name.contains('*'));
        given.try_for_each(|(name, value)| header::write_parameter(w, name, value))?;
        header::write_filename(w, "name", &attachment.filename)
    });
    Ok(())
}
