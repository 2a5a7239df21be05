//! Bodies: the transfer encodings of RFC 2045, section 6.
//!
//! Owns which encoding a text takes and what `quoted_printable` leaves open; which part has which body is not decided
//! here.

use std::borrow::Cow;

use email_encoding::body::{
    Encoding,
    base64::{self, encoded_len},
};
use quoted_printable::{Options, encode_with_options};

/// The longest line of quoted-printable (RFC 2045, section 6.7), less two for an escape at its start.
const QUOTED_LINE: usize = 76 - 2;

/// The value of Content-Transfer-Encoding, and the text in it with its line ends (CRLF, LF or CR) made CRLF. Text is
/// always encoded: what is sent as it is can hold a line end that one server reads as such and the next does not.
pub(super) fn encode_text(text: &str) -> (&'static str, String) {
    let text = with_crlf(text);
    if is_base64(&text) {
        let mut encoded = String::with_capacity(encoded_len(text.len()));
        write_base64(text.as_bytes(), &mut encoded);
        return ("base64", encoded);
    }
    // A dot at a line's start would have to be doubled by SMTP, and mailbox files take "From " for the next message
    // (RFC 2049, section 3); the crate escapes neither.
    let encoded = encode_with_options(&*text, Options::default().line_length_limit(QUOTED_LINE));
    if !encoded.split("\r\n").any(is_marked) {
        return ("quoted-printable", encoded);
    }
    let mut lines = format!("\r\n{encoded}").replace("\r\n.", "\r\n=2E").replace("\r\nFrom ", "\r\n=46rom ");
    lines.drain(..2);
    ("quoted-printable", lines)
}

/// How many bytes [`encode_text`] makes of it: never less than it does, and little more.
pub(super) fn encoded_text_estimate(text: &str) -> usize {
    let text = with_crlf(text);
    if is_base64(&text) {
        return encoded_len(text.len());
    }
    let escaped = |line: &str| {
        let escapes = line.bytes().filter(|byte| !matches!(byte, b' '..=b'<' | b'>'..=b'~' | b'\t')).count();
        let at_ends = usize::from(is_marked(line)) + usize::from(line.ends_with([' ', '\t']));
        let bytes = line.len() + 2 * (escapes + at_ends);
        // A line is cut where an escape would go over its end, so up to two bytes short; its next begins with another.
        bytes + bytes / (QUOTED_LINE - 3) * 5
    };
    text.split("\r\n").map(|line| escaped(line) + 2).sum()
}

/// With its line ends (CRLF, LF or CR) made CRLF.
fn with_crlf(text: &str) -> Cow<'_, str> {
    if !text.contains(['\r', '\n']) {
        return Cow::Borrowed(text);
    }
    let mut lines = String::with_capacity(text.len() + text.len() / 32 + 2);
    let mut rest = text;
    while let Some(at) = rest.find(['\r', '\n']) {
        lines.push_str(&rest[..at]);
        lines.push_str("\r\n");
        rest = &rest[at..];
        rest = rest.strip_prefix("\r\n").unwrap_or(&rest[1..]);
    }
    lines.push_str(rest);
    Cow::Owned(lines)
}

/// Whether a line begins in a way that not every reader takes for text.
fn is_marked(line: &str) -> bool {
    line.starts_with('.') || line.starts_with("From ")
}

fn is_base64(text: &str) -> bool {
    matches!(Encoding::choose(text, false), Encoding::Base64)
}

/// Appends the bytes as base64, in lines, without a line end after the last.
pub(super) fn write_base64(bytes: &[u8], out: &mut String) {
    base64::encode(bytes, out).expect("a string takes whatever is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_printable_table() {
        let long = "a".repeat(77);
        let long_folded = format!("{}=\r\n{}", "a".repeat(73), "a".repeat(4));
        let dots = format!("{}.b", "a".repeat(73));
        let dots_folded = format!("{}=\r\n=2Eb", "a".repeat(73));
        let full = "a".repeat(74);
        let table = [
            ("", ""),
            ("plain", "plain"),
            ("a=b", "a=3Db"),
            ("é as in café", "=C3=A9 as in caf=C3=A9"),
            ("a\0b\x7f", "a=00b=7F"),
            ("a \nb\t", "a=20\r\nb=09"),
            ("a b\tc", "a b\tc"),
            ("a\nb\rc\r\nd\n\re", "a\r\nb\r\nc\r\nd\r\n\r\ne"),
            ("\n", "\r\n"),
            (".\n..\na.", "=2E\r\n=2E.\r\na."),
            ("From here\nFromage", "=46rom here\r\nFromage"),
            (&full, &full),
            (&long, &long_folded),
            (&dots, &dots_folded),
        ];
        for (given, expected) in table {
            assert_eq!(encode_text(given), ("quoted-printable", expected.to_owned()), "{given:?}");
        }
    }

    #[test]
    fn a_text_of_another_script_is_base64_and_a_western_one_is_not() {
        assert_eq!(encode_text("Здравствуйте, Иван").0, "base64");
        assert_eq!(encode_text("Guten Tag, Herr Müller").0, "quoted-printable");
    }
}
