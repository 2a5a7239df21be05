//! The relaxed canonical forms of header fields and of a body (RFC 6376, sections 3.4.2 and 3.4.4).
//!
//! Owns them only; signs nothing.

use memchr::{memchr, memchr2, memmem};
use sha2::{Digest, Sha256};

/// A header field as it stands in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    name: &'a [u8],
    /// What follows the colon, folds included, the last line end not.
    value: &'a [u8],
}

impl Field<'_> {
    /// Whether its name is that one.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The header and the body of a message, without the empty line between them.
pub(super) fn split(content: &[u8]) -> (&[u8], &[u8]) {
    match memmem::find(content, b"\r\n\r\n") {
        Some(end) => (&content[..end + 2], &content[end + 4..]),
        None => (content, &[]),
    }
}

/// The fields of a header, in their order. A line that begins with a space belongs to the field before it.
pub(super) fn fields(header: &[u8]) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    let mut rest = header;
    while !rest.is_empty() {
        let end = field_end(rest);
        let field = rest[..end].strip_suffix(b"\r\n").unwrap_or(&rest[..end]);
        if let Some(colon) = memchr(b':', field) {
            fields.push(Field { name: field[..colon].trim_ascii_end(), value: &field[colon + 1..] });
        }
        rest = &rest[end..];
    }
    fields
}

/// Where the first field ends, its line end included.
fn field_end(header: &[u8]) -> usize {
    memmem::find_iter(header, b"\r\n")
        .map(|line_end| line_end + 2)
        .find(|&end| !matches!(header.get(end), Some(b' ' | b'\t')))
        .unwrap_or(header.len())
}

/// Appends the field in its canonical form, without a line end.
pub(super) fn write_relaxed(field: &Field<'_>, out: &mut Vec<u8>) {
    out.extend(field.name.to_ascii_lowercase());
    out.push(b':');
    let unfolded = field.value.iter().filter(|byte| !matches!(byte, b'\r' | b'\n'));
    let start = out.len();
    for &byte in unfolded {
        match byte {
            b' ' | b'\t' if out.len() == start || out.ends_with(b" ") => {}
            b' ' | b'\t' => out.push(b' '),
            _ => out.push(byte),
        }
    }
    if out.len() > start && out.ends_with(b" ") {
        out.pop();
    }
}

/// The hash of a body in its canonical form.
pub(super) fn body_hash(body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    // Empty lines at the end do not count, so each waits for one that is not.
    let mut empty_lines = 0;
    let mut relaxed = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (line, after) = match memmem::find(rest, b"\r\n") {
            Some(end) => (&rest[..end], &rest[end + 2..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = after;
        let line = relax(line, &mut relaxed);
        if line.is_empty() {
            empty_lines += 1;
            continue;
        }
        (0..empty_lines).for_each(|_| hash.update(b"\r\n"));
        empty_lines = 0;
        hash.update(line);
        hash.update(b"\r\n");
    }
    hash.finalize().into()
}

/// The line with each run of white space as one space, and none at its end. Most lines have none and are not copied.
fn relax<'a>(line: &'a [u8], relaxed: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr2(b' ', b'\t', line).is_none() {
        return line;
    }
    relaxed.clear();
    for &byte in line {
        match byte {
            b' ' | b'\t' if relaxed.ends_with(b" ") => {}
            b' ' | b'\t' => relaxed.push(b' '),
            _ => relaxed.push(byte),
        }
    }
    if relaxed.ends_with(b" ") {
        relaxed.pop();
    }
    relaxed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relaxed(header: &str) -> String {
        let mut out = Vec::new();
        for field in fields(header.as_bytes()) {
            write_relaxed(&field, &mut out);
            out.extend(b"\r\n");
        }
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn header_fields_are_relaxed() {
        let table = [
            ("A: X\r\nB : Y\t\r\n\tZ  \r\n", "a:X\r\nb:Y Z\r\n"),
            ("Subject:   a   b  \r\n", "subject:a b\r\n"),
            ("Subject:\r\n a\r\n  b\r\n", "subject:a b\r\n"),
            ("Subject:\r\n", "subject:\r\n"),
            ("Subject: \r\n", "subject:\r\n"),
            ("X: a:b\r\nx: c", "x:a:b\r\nx:c\r\n"),
        ];
        for (header, expected) in table {
            assert_eq!(relaxed(header), expected, "{header:?}");
        }
    }

    #[test]
    fn bodies_are_relaxed() {
        let table: [(&str, &str); 9] = [
            (" C \r\nD \t E\r\n\r\n\r\n", " C\r\nD E\r\n"),
            ("a\r\n", "a\r\n"),
            ("a", "a\r\n"),
            ("", ""),
            ("\r\n", ""),
            ("\r\n\r\n", ""),
            (" \r\n", ""),
            ("\r\na\r\n\r\nb\r\n", "\r\na\r\n\r\nb\r\n"),
            ("\ta\tb", " a b\r\n"),
        ];
        for (body, canonical) in table {
            let expected: [u8; 32] = Sha256::digest(canonical).into();
            assert_eq!(body_hash(body.as_bytes()), expected, "{body:?}");
        }
    }

    #[test]
    fn header_and_body_are_told_apart() {
        assert_eq!(split(b"A: b\r\n\r\nbody\r\n\r\n"), (&b"A: b\r\n"[..], &b"body\r\n\r\n"[..]));
        assert_eq!(split(b"A: b\r\n\r\n"), (&b"A: b\r\n"[..], &b""[..]));
        assert_eq!(split(b"A: b\r\n"), (&b"A: b\r\n"[..], &b""[..]));
    }
}
