//! Files that are no text: what their first bytes say.
//!
//! Owns what matters here and the crate `infer` does not tell well enough; the rest is left to it.

use memchr::memmem;

use super::archive;

/// What files of a type begin with.
const BEGINNINGS: [(&[u8], &str); 6] = [
    (b"MZ", "application/vnd.microsoft.portable-executable"),
    (b"\x4c\0\0\0\x01\x14\x02\0", "application/x-ms-shortcut"),
    (b"ITSF", "application/vnd.ms-htmlhelp"),
    (b"MSCF", "application/vnd.ms-cab-compressed"),
    (b"\xca\xfe\xba\xbe", "application/java"),
    (b"dex\n", "application/vnd.android.dex"),
];

/// What the old Office formats, installers and message files of Windows begin with.
const OLE: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
/// The streams in which such a file keeps its macros, as its directory spells them (UTF-16).
const VBA_STREAMS: [&[u8]; 2] = [b"_\0V\0B\0A\0_\0P\0R\0O\0J\0E\0C\0T\0", b"V\0B\0A\0\0\0"];

/// The type of the content, if it is known.
pub(super) fn form(content: &[u8]) -> Option<&'static str> {
    if let Some((_, media)) = BEGINNINGS.iter().find(|(beginning, _)| content.starts_with(beginning)) {
        return Some(media);
    }
    if content.starts_with(b"PK\x03\x04") || content.starts_with(b"PK\x05\x06") {
        return Some(archive::form(content));
    }
    if content.starts_with(OLE) {
        return Some(ole(content));
    }
    // A disk image says what it is only after its first sectors.
    if content.get(0x8001..).is_some_and(|sector| sector.starts_with(b"CD001")) {
        return Some("application/x-iso9660-image");
    }
    infer::get(content).map(|found| found.mime_type())
}

fn ole(content: &[u8]) -> &'static str {
    if VBA_STREAMS.iter().any(|stream| memmem::find(content, stream).is_some()) {
        return "application/vnd.ms-office.vbaproject";
    }
    let office = ["application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint"];
    let found = infer::get(content).map(|found| found.mime_type()).filter(|media| office.contains(media));
    found.unwrap_or("application/x-ole-storage")
}
