//! Bodies: the transfer encodings of RFC 2045, section 6.
//!
//! Owns the bytes of a body; which part has which is not decided here.

use base64::{Engine, engine::general_purpose::STANDARD};

/// The longest line of an encoded body (RFC 2045, sections 6.7 and 6.8).
const LINE: usize = 76;
/// The bytes that make a full line of base64.
const LINE_BYTES: usize = LINE / 4 * 3;

/// How a body is made ASCII with short lines. There is no third: what is sent as it is can hold a line end that one
/// server reads as such and the next does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Readable where the text is mostly ASCII.
    QuotedPrintable,
    /// A third more, whatever the bytes.
    Base64,
}

impl Encoding {
    /// The one that makes the text shorter.
    pub(super) fn for_text(text: &str) -> Self {
        let escaped = text.bytes().filter(|b| !is_plain(*b) && !matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count();
        // An escaped byte takes two more; base64 makes four of three.
        if escaped * 6 > text.len() { Self::Base64 } else { Self::QuotedPrintable }
    }

    /// The value of Content-Transfer-Encoding.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::QuotedPrintable => "quoted-printable",
            Self::Base64 => "base64",
        }
    }
}

/// Appends the text with its line ends (CRLF, LF or CR) made CRLF.
pub(super) fn write_text(text: &str, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::QuotedPrintable => {
            for (number, line) in Lines(Some(text)).enumerate() {
                if number > 0 {
                    out.extend_from_slice(b"\r\n");
                }
                write_quoted_line(line.as_bytes(), out);
            }
        }
        Encoding::Base64 => write_base64(Lines(Some(text)).collect::<Vec<_>>().join("\r\n").as_bytes(), out),
    }
}

/// Appends the bytes as base64, in lines, without a line end after the last.
pub(super) fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let mut line = [0; LINE];
    for (number, chunk) in bytes.chunks(LINE_BYTES).enumerate() {
        if number > 0 {
            out.extend_from_slice(b"\r\n");
        }
        let written = STANDARD.encode_slice(chunk, &mut line).expect("57 bytes are 76 characters of base64");
        out.extend_from_slice(&line[..written]);
    }
}

/// How many bytes base64 in lines takes at most.
pub(super) fn base64_size(bytes: usize) -> usize {
    let characters = bytes.div_ceil(3) * 4;
    characters + characters.div_ceil(LINE) * 2
}

/// How many bytes an encoded text takes at most.
pub(super) fn text_size(text: &str) -> usize {
    let ends = text.bytes().filter(|b| matches!(b, b'\r' | b'\n')).count();
    let written = match Encoding::for_text(text) {
        Encoding::Base64 => return base64_size(text.len() + ends),
        // Spaces at line ends, dots and "From " at line starts are escaped too: two more a line.
        Encoding::QuotedPrintable => {
            let escaped = text.bytes().filter(|b| !is_plain(*b) && !matches!(b, b' ' | b'\t' | b'\r' | b'\n')).count();
            text.len() + 2 * escaped + 5 * (ends + 1)
        }
    };
    // A soft line break is three bytes, and so may be its next line's first escape; lines hold at least 73 characters.
    written + written.div_ceil(LINE - 3) * 5
}

/// The lines of a text, whatever its line ends.
struct Lines<'a>(Option<&'a str>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0?;
        let Some(end) = text.find(['\r', '\n']) else {
            self.0 = None;
            return Some(text);
        };
        let (line, rest) = text.split_at(end);
        self.0 = rest.strip_prefix("\r\n").or_else(|| rest.get(1..));
        Some(line)
    }
}

/// What stands for itself in quoted-printable, anywhere in a line but at its start.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'='
}

fn write_quoted_line(line: &[u8], out: &mut Vec<u8>) {
    let mut column = 0;
    for (index, &byte) in line.iter().enumerate() {
        let last = index + 1 == line.len();
        let mut escaped = is_escaped(byte, &line[index..], column, last);
        let width = if escaped { 3 } else { 1 };
        // Room is kept for the "=" of a soft line break, unless the line ends here.
        if column + width > LINE - usize::from(!last) {
            out.extend_from_slice(b"=\r\n");
            column = 0;
            escaped = is_escaped(byte, &line[index..], column, last);
        }
        if escaped {
            out.extend_from_slice(&[b'=', hex(byte >> 4), hex(byte & 15)]);
            column += 3;
        } else {
            out.push(byte);
            column += 1;
        }
    }
}

/// Whether a byte must not stand for itself: at a line's start also a dot, which SMTP would have to double, and
/// "From ", which mailbox files take for the next message (RFC 2049, section 3).
fn is_escaped(byte: u8, rest: &[u8], column: usize, last: bool) -> bool {
    let space_inside = matches!(byte, b' ' | b'\t') && !last;
    let at_start = column == 0 && (byte == b'.' || rest.starts_with(b"From "));
    at_start || !(is_plain(byte) || space_inside)
}

fn hex(nibble: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(nibble & 15)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = Vec::new();
        write_text(text, Encoding::QuotedPrintable, &mut out);
        String::from_utf8(out).expect("is ASCII")
    }

    #[test]
    fn quoted_printable_table() {
        let long = "a".repeat(77);
        let long_folded = format!("{}=\r\n{}", "a".repeat(75), "a".repeat(2));
        let dots = format!("{}.b", "a".repeat(75));
        let dots_folded = format!("{}=\r\n=2Eb", "a".repeat(75));
        let full = "a".repeat(76);
        let table = [
            ("", ""),
            ("plain", "plain"),
            ("a=b", "a=3Db"),
            ("é", "=C3=A9"),
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
            assert_eq!(quoted(given), expected, "{given:?}");
        }
    }

    #[test]
    fn base64_has_full_lines_and_no_empty_last_one() {
        let mut out = Vec::new();
        write_base64(&[0; 57 * 2], &mut out);
        assert_eq!(out, [[b'A'; 76].as_slice(), b"\r\n", &[b'A'; 76]].concat());
        assert!(out.len() <= base64_size(57 * 2));
    }

    #[test]
    fn a_text_of_another_script_is_base64_and_a_western_one_is_not() {
        assert_eq!(Encoding::for_text("Здравствуйте, Иван"), Encoding::Base64);
        assert_eq!(Encoding::for_text("Guten Tag, Herr Müller"), Encoding::QuotedPrintable);
        assert_eq!(Encoding::for_text(""), Encoding::QuotedPrintable);
    }
}
