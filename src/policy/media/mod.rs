//! Which media type a file has, found by its content, and whether it may be sent.
//!
//! Owns the recognition of types; what is said to the caller is the neighbour module's.
//!
//! A file is looked at from three sides, since different receivers go by different ones: by its content, by the type
//! that the caller declares (what a mail reader goes by), and by the extension of its name (what an operating system
//! goes by). Each must be allowed, so that a program passes under no innocent name and a script under no innocent type.

mod allowed;
mod archive;
mod binary;
mod extension;
mod text;

pub(super) use self::allowed::AllowedTypes;
use self::text::{Reading, read};
use crate::message::MediaType;

/// What a file without any known form is.
const OCTET_STREAM: &str = "application/octet-stream";
/// What a text without any known form is.
const PLAIN_TEXT: &str = "text/plain";

/// What became of looking at a file.
pub(super) struct Judgement<'a> {
    /// The type found; what is sent as Content-Type where the caller declared none.
    pub(super) found: &'a str,
    /// Whether that may be sent.
    pub(super) content_allowed: bool,
    /// Whether the declared type may be sent.
    pub(super) declared_allowed: bool,
    /// The extension, if it makes a program of the file and such programs may not be sent.
    pub(super) refused_extension: Option<&'static str>,
}

/// Looks at a file from all sides.
pub(super) fn judge<'a>(
    content: &[u8],
    filename: &str,
    declared: Option<&'a MediaType>,
    allowed: &AllowedTypes,
) -> Judgement<'a> {
    let declared = declared.map(MediaType::essence).filter(|essence| *essence != OCTET_STREAM);
    let found = found(content, filename, declared, allowed);
    let program = extension::program(filename).filter(|(_, media)| !allowed.covers(media));
    Judgement {
        found,
        content_allowed: allowed.covers(found),
        declared_allowed: declared.is_none_or(|essence| allowed.covers(essence)),
        refused_extension: program.map(|(extension, _)| extension),
    }
}

/// The type of the content. Where the content shows no more than that it is text, or not even that, it is what the
/// caller declares, unless that is a type which would have been recognised.
fn found<'a>(content: &[u8], filename: &str, declared: Option<&'a str>, allowed: &AllowedTypes) -> &'a str {
    let declared = declared.filter(|essence| !is_recognisable(essence));
    match detect(content) {
        Detected::Known(media) => media,
        Detected::Text => declared.or_else(|| extension::text(filename)).unwrap_or(PLAIN_TEXT),
        // Nothing speaks for the declared type but the caller: only an operator who named it vouches for it.
        Detected::Unknown => declared.filter(|essence| allowed.names(essence)).unwrap_or(OCTET_STREAM),
    }
}

/// What content shows of itself.
#[derive(Debug, PartialEq, Eq)]
enum Detected {
    Known(&'static str),
    Text,
    Unknown,
}

fn detect(content: &[u8]) -> Detected {
    // A PDF may be all text, and often is at its beginning.
    if content.starts_with(b"%PDF-") {
        return Detected::Known("application/pdf");
    }
    match read(content) {
        Reading::Text(text) => text::form(&text).map_or(Detected::Text, Detected::Known),
        Reading::Binary => binary::form(content).map_or(Detected::Unknown, Detected::Known),
    }
}

/// Whether content of that type is recognised as such, so that other content cannot be it.
fn is_recognisable(essence: &str) -> bool {
    infer::is_mime_supported(essence) || text::FORMS.contains(&essence) || archive::recognises(essence)
}

#[cfg(test)]
mod tests;
