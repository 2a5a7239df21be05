//! Files that go with an email, and the media types they have.
//!
//! Owns the syntax of a media type; which types may be sent is not decided here.

use std::fmt;

use bytes::Bytes;

/// A file that goes with an email.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The name the receiver sees.
    pub filename: String,
    /// The media type, for example `application/pdf`.
    pub content_type: String,
    /// The bytes.
    pub content: Bytes,
    /// For an image shown inside the HTML: what `cid:` refers to, without angle brackets.
    pub content_id: Option<String>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment").field("bytes", &self.content.len()).finish_non_exhaustive()
    }
}

/// The longest media type with its parameters, in bytes.
const MAX_MEDIA_TYPE: usize = 500;
/// The longest name of a type or subtype (RFC 6838, section 4.2).
const MAX_NAME: usize = 127;
/// The longest name of a parameter: so that a line of a header has room for some of its value.
const MAX_ATTRIBUTE: usize = 32;

/// A media type as RFC 2045, section 5.1, has it: `text/csv; charset=utf-8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType {
    essence: String,
    parameters: Vec<(String, String)>,
}

/// A text that is not a media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a media type of the form type/subtype; attribute=value")]
pub struct MediaTypeError;

impl MediaType {
    /// Parses type, subtype and parameters. Type, subtype and the parameters' names become lower-case; comments and
    /// non-ASCII are refused.
    pub fn parse(text: &str) -> Result<Self, MediaTypeError> {
        if text.len() > MAX_MEDIA_TYPE {
            return Err(MediaTypeError);
        }
        let (essence, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
        let (kind, subtype) = essence.trim_matches([' ', '\t']).split_once('/').ok_or(MediaTypeError)?;
        if !is_token(kind) || !is_token(subtype) || kind.len().max(subtype.len()) > MAX_NAME {
            return Err(MediaTypeError);
        }
        let mut parameters = Vec::new();
        while let Some(after) = rest.strip_prefix(';') {
            let (parameter, after) = parse_parameter(after)?;
            parameters.push(parameter);
            rest = after;
        }
        if !rest.is_empty() {
            return Err(MediaTypeError);
        }
        Ok(Self { essence: format!("{kind}/{subtype}").to_ascii_lowercase(), parameters })
    }

    /// Type and subtype, lower-case: `text/csv`.
    pub fn essence(&self) -> &str {
        &self.essence
    }

    /// The type alone, lower-case: `text`.
    pub fn kind(&self) -> &str {
        self.essence.split_once('/').map_or("", |(kind, _)| kind)
    }

    /// The parameters in their order; the names are lower-case, the values unquoted.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Reads ` name=value ` up to the next semicolon or the end, and gives what follows.
fn parse_parameter(text: &str) -> Result<((String, String), &str), MediaTypeError> {
    let (name, rest) = text.split_once('=').ok_or(MediaTypeError)?;
    let name = name.trim_matches([' ', '\t']);
    if !is_token(name) || name.len() > MAX_ATTRIBUTE {
        return Err(MediaTypeError);
    }
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => parse_quoted(quoted)?,
        None => {
            let (value, rest) = rest.split_at(rest.find([';', ' ', '\t']).unwrap_or(rest.len()));
            if !is_token(value) {
                return Err(MediaTypeError);
            }
            (value.to_owned(), rest)
        }
    };
    Ok(((name.to_ascii_lowercase(), value), rest.trim_start_matches([' ', '\t'])))
}

/// Reads a quoted string whose opening quote is behind us, and gives what follows the closing one.
fn parse_quoted(text: &str) -> Result<(String, &str), MediaTypeError> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        let c = match c {
            '"' => return Ok((value, &text[index + 1..])),
            '\\' => chars.next().ok_or(MediaTypeError)?.1,
            c => c,
        };
        if c != ' ' && !c.is_ascii_graphic() {
            return Err(MediaTypeError);
        }
        value.push(c);
    }
    Err(MediaTypeError)
}

/// Whether a text is a token of RFC 2045, section 5.1.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_are_read_with_their_parameters() {
        let table = [
            ("application/pdf", "application/pdf", &[][..]),
            ("Image/PNG", "image/png", &[]),
            (" text/csv ", "text/csv", &[]),
            ("text/csv; charset=UTF-8", "text/csv", &[("charset", "UTF-8")]),
            ("text/csv;Header=present;charset=utf-8", "text/csv", &[("header", "present"), ("charset", "utf-8")]),
            ("a/b; x=\"p; q=\\\"r\\\\\" ; y=z", "a/b", &[("x", "p; q=\"r\\"), ("y", "z")]),
            ("application/vnd.a-b+xml", "application/vnd.a-b+xml", &[]),
        ];
        for (given, essence, parameters) in table {
            let parsed = MediaType::parse(given).unwrap_or_else(|_| panic!("{given} is a media type"));
            assert_eq!(parsed.essence(), essence);
            assert_eq!(parsed.parameters().collect::<Vec<_>>(), parameters, "{given}");
        }
        assert_eq!(MediaType::parse("text/csv; a=b").map(|t| t.kind().to_owned()).as_deref(), Ok("text"));
    }

    #[test]
    fn other_texts_are_not_media_types() {
        let long = format!("a/{}", "b".repeat(128));
        let long_attribute = format!("a/b; {}=d", "c".repeat(33));
        let table = [
            "",
            "/",
            "pdf",
            "application/",
            "/pdf",
            "a/b/c",
            "a b/c",
            "a/b c",
            "a/b;",
            "a/b; ",
            "a/b; c",
            "a/b; c=",
            "a/b; =d",
            "a/b; c=\"d",
            "a/b; c=\"d\\",
            "a/b; c=\"d\"e",
            "a/b; c=d e",
            "a/b (comment)",
            "a/b\r\nBcc: c@d.e",
            "a/b; c=\"\r\n\"",
            "a/b; c=é",
            "é/b",
            "a/b\0",
            &long,
            &long_attribute,
        ];
        for given in table {
            assert_eq!(MediaType::parse(given), Err(MediaTypeError), "{given:?}");
        }
    }
}
