//! Header lines: in which of its forms a text goes, and where a line ends.
//!
//! Owns those choices, which `email-encoding` leaves to its caller; the encodings are that crate's, and which headers
//! there are is not decided here.

use std::fmt::{self, Write};

use email_encoding::headers::{rfc2047, rfc2231, writer::EmailWriter};

use super::MimeError;
use crate::message::Mailbox;

/// The length that lines keep to where they can (RFC 2047, section 2).
const LINE: usize = 76;
/// The longest single word of a header of the caller's that is left as it is: with the name before it, it still fits
/// the 998 characters of a line. A machine may have to read it (the address in List-Unsubscribe), so it is not encoded
/// for beauty.
const MAX_RAW_WORD: usize = 900;
/// The longest display name in quotes: it stays on one line, since many readers do not unfold quoted strings.
const MAX_QUOTED: usize = 60;

/// Appends a header whose value is written by `value`.
pub(super) fn write(out: &mut String, name: &str, value: impl FnOnce(&mut EmailWriter<'_>) -> fmt::Result) {
    out.push_str(name);
    out.push_str(": ");
    let mut writer = EmailWriter::new(out, name.len() + 2, 0, false);
    value(&mut writer).expect("a string takes whatever is written");
    drop(writer);
    out.push_str("\r\n");
}

/// Appends a header of mailboxes, each on a line of its own; nothing at all if there are none.
pub(super) fn write_mailboxes(out: &mut String, name: &str, mailboxes: &[Mailbox]) -> Result<(), MimeError> {
    for display in mailboxes.iter().filter_map(|m| m.name.as_deref()) {
        refuse_control(display, "a display name")?;
    }
    if let Some((first, rest)) = mailboxes.split_first() {
        write(out, name, |w| {
            write_mailbox(w, first)?;
            rest.iter().try_for_each(|mailbox| {
                w.write_char(',')?;
                w.new_line()?;
                w.space();
                write_mailbox(w, mailbox)
            })
        });
    }
    Ok(())
}

/// Appends a header that people read: a word too long for a line is cut.
pub(super) fn write_subject(out: &mut String, subject: &str) -> Result<(), MimeError> {
    refuse_control(subject, "the subject")?;
    write(out, "Subject", |w| write_unstructured(w, subject, LINE - "Subject: ".len()));
    Ok(())
}

/// Appends a header of the caller's: words are left whole as long as a line can hold them.
pub(super) fn write_custom(out: &mut String, name: &str, value: &str) -> Result<(), MimeError> {
    let is_name = |b: u8| b.is_ascii_graphic() && b != b':';
    if name.is_empty() || name.len() > LINE || !name.bytes().all(is_name) {
        return Err(MimeError::HeaderName);
    }
    refuse_control(value, "the value of a header")?;
    write(out, name, |w| write_unstructured(w, value, MAX_RAW_WORD));
    Ok(())
}

/// The value of a header on one line. A text that is ASCII stays as it is.
pub(super) fn unfolded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut folded = String::new();
    let mut writer = EmailWriter::new(&mut folded, 0, 0, false);
    rfc2047::encode(text, &mut writer).expect("a string takes whatever is written");
    drop(writer);
    folded.replace("\r\n", "")
}

/// `; name="value"` on a line of its own. The value must be printable ASCII.
pub(super) fn write_parameter(w: &mut EmailWriter<'_>, name: &str, value: &str) -> fmt::Result {
    w.write_char(';')?;
    w.new_line()?;
    w.space();
    write!(w, "{name}={}", quoted(value))
}

/// The name of a file as a parameter: of any script and length (RFC 2231).
pub(super) fn write_filename(w: &mut EmailWriter<'_>, name: &str, filename: &str) -> fmt::Result {
    let is_plain = is_printable(filename) && !filename.contains(['"', '\\']);
    // The encoder cuts into sections what does not fit the rest of the line, and not all readers know sections.
    if is_plain && name.len() + filename.len() + 4 < LINE {
        return write_parameter(w, name, filename);
    }
    w.write_char(';')?;
    w.space();
    // It also leaves all ASCII in quotes, where readers decode "=?…?=" although they should not, and differ about
    // backslashes.
    if !is_plain && filename.is_ascii() && 3 * filename.len() <= MAX_RAW_WORD {
        w.new_line()?;
        let escaped: String = filename.bytes().map(|b| format!("%{b:02X}")).collect();
        return write!(w, "{name}*=utf-8''{escaped}");
    }
    rfc2231::encode(name, filename, w)
}

/// The text, if it has nothing that a reader could take for the end of a header.
pub(super) fn refuse_control(text: &str, what: &'static str) -> Result<(), MimeError> {
    if text.chars().any(char::is_control) { Err(MimeError::Control(what)) } else { Ok(()) }
}

fn write_mailbox(w: &mut EmailWriter<'_>, mailbox: &Mailbox) -> fmt::Result {
    let address = mailbox.address.as_str();
    let Some(display) = mailbox.name.as_deref().filter(|name| !name.is_empty()) else {
        return w.write_str(address);
    };
    // The encoder's own quoted strings fold in the middle and leave dots, which atoms must not have, unquoted.
    if is_printable(display) && display.len() <= MAX_QUOTED {
        w.write_str(&quoted(display))?;
    } else {
        rfc2047::encode(display, w)?;
    }
    w.space();
    if w.projected_line_len() + address.len() + 2 > LINE {
        w.new_line()?;
    }
    write!(w, "<{address}>")
}

fn write_unstructured(w: &mut EmailWriter<'_>, text: &str, longest: usize) -> fmt::Result {
    // Spaces at the ends and in a row do not survive folding and unfolding in every reader.
    let carried = |word: &str| !word.is_empty() && word.len() <= longest;
    if is_printable(text) && text.split(' ').all(carried) {
        w.folding().write_str(text)
    } else {
        rfc2047::encode(text, w)
    }
}

/// Whether a text can stand for itself: ASCII, and nothing in it that a reader would take for an encoded word.
fn is_printable(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b)) && !text.contains("=?")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
