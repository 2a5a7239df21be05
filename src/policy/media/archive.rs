//! Zip files, and the documents that are zip files inside.
//!
//! Owns as much of the format as tells a document without macros from everything else. What cannot be read as exactly
//! one well-formed archive is a mere zip file, which no default setting allows: so a file on whose meaning two readers
//! may differ does not pass for a document.

use std::io::Read;

use flate2::read::DeflateDecoder;
use memchr::memmem;

const ZIP: &str = "application/zip";
/// The most entries that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// The most bytes of an entry that are decompressed: an entry with more is not read at all.
const MAX_ENTRY: u64 = 1024 * 1024;

/// Office's documents: what `[Content_Types].xml` calls the main part, the type, and the type with macros.
const OOXML: [(&str, &str, &str); 6] = [
    (
        "wordprocessingml.document.main+xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.ms-word.document.macroenabled.12",
    ),
    (
        "wordprocessingml.template.main+xml",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.template",
        "application/vnd.ms-word.document.macroenabled.12",
    ),
    (
        "spreadsheetml.sheet.main+xml",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.ms-excel.sheet.macroenabled.12",
    ),
    (
        "spreadsheetml.template.main+xml",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.template",
        "application/vnd.ms-excel.sheet.macroenabled.12",
    ),
    (
        "presentationml.presentation.main+xml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
    ),
    (
        "presentationml.slideshow.main+xml",
        "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
    ),
];

/// What says in `[Content_Types].xml` that there are macros or controls.
const MACRO_TYPES: [&str; 4] = ["macroenabled", "vbaproject", "macrosheet", "activex"];

/// Documents that name their type in their first entry.
const NAMED: [&str; 6] = [
    "application/vnd.oasis.opendocument.text",
    "application/vnd.oasis.opendocument.spreadsheet",
    "application/vnd.oasis.opendocument.presentation",
    "application/vnd.oasis.opendocument.graphics",
    "application/vnd.oasis.opendocument.text-template",
    "application/epub+zip",
];

/// Whether a file of that type is recognised as such.
pub(super) fn recognises(essence: &str) -> bool {
    let other = [
        ZIP,
        "application/java-archive",
        "application/vnd.android.package-archive",
        "application/vnd.apple.pkpass",
        "application/x-opendocument-macros",
    ];
    let office = OOXML.iter().any(|(_, plain, with_macros)| [*plain, *with_macros].contains(&essence));
    office || NAMED.contains(&essence) || other.contains(&essence)
}

/// The type of a zip file.
pub(super) fn form(content: &[u8]) -> &'static str {
    let Some(entries) = entries(content) else { return ZIP };
    let find = |name: &str| entries.iter().find(|entry| entry.name == name);
    let within = |folders: &[&str]| entries.iter().any(|e| folders.iter().any(|folder| e.name.starts_with(folder)));
    if find("androidmanifest.xml").is_some() {
        "application/vnd.android.package-archive"
    } else if find("meta-inf/manifest.mf").is_some() || entries.iter().any(|e| e.name.ends_with(".class")) {
        "application/java-archive"
    } else if let Some(types) = find("[content_types].xml") {
        office(content, &entries, types)
    } else if let Some(named) = entries.first().filter(|entry| entry.name == "mimetype") {
        let name = named.read(content).unwrap_or_default();
        match NAMED.iter().find(|known| known.as_bytes() == name.trim_ascii_end()) {
            Some(_) if within(&["basic/", "scripts/", "dialogs/"]) => "application/x-opendocument-macros",
            Some(media) => media,
            None => ZIP,
        }
    } else if ["pass.json", "manifest.json", "signature"].iter().all(|name| find(name).is_some()) {
        "application/vnd.apple.pkpass"
    } else {
        ZIP
    }
}

fn office(content: &[u8], entries: &[Entry], types: &Entry) -> &'static str {
    let types = String::from_utf8_lossy(&types.read(content).unwrap_or_default()).to_ascii_lowercase();
    let with_macros_of = |media: &str| media.trim_end_matches(".12").to_owned();
    let main = OOXML.iter().find(|(main, _, macros)| types.contains(main) || types.contains(&with_macros_of(macros)));
    let Some((_, plain, with_macros)) = main else { return ZIP };
    let named = |entry: &Entry| {
        let name = entry.name.as_str();
        name.ends_with("vbaproject.bin") || ["macrosheets/", "activex/"].iter().any(|folder| name.contains(folder))
    };
    // A character reference spells a type in a way that this search does not see and that no writer uses.
    let spelled = MACRO_TYPES.iter().chain(&["&#", "<!entity"]).any(|sign| types.contains(sign));
    let hidden = memmem::find(content, b"vbaProject.bin").is_some();
    if spelled || hidden || entries.iter().any(named) { with_macros } else { plain }
}

/// An entry of the archive's directory.
struct Entry {
    /// The name, lower-case, with forward slashes.
    name: String,
    method: u16,
    size: usize,
    /// Where the entry's own header begins.
    offset: usize,
}

impl Entry {
    /// The entry's whole content. `None` where it is longer than is looked at: what its beginning says would not hold
    /// for what comes after.
    fn read(&self, archive: &[u8]) -> Option<Vec<u8>> {
        let header = archive.get(self.offset..)?;
        if !header.starts_with(b"PK\x03\x04") {
            return None;
        }
        let start = 30 + number16(header, 26)? + number16(header, 28)?;
        let stored = header.get(start..start.checked_add(self.size)?)?;
        let mut content = Vec::new();
        match self.method {
            0 => stored.take(MAX_ENTRY + 1).read_to_end(&mut content).ok()?,
            8 => DeflateDecoder::new(stored).take(MAX_ENTRY + 1).read_to_end(&mut content).ok()?,
            _ => return None,
        };
        (content.len() as u64 <= MAX_ENTRY).then_some(content)
    }
}

/// The archive's directory, if the file is one archive from its first byte to its last and the directory is whole.
fn entries(archive: &[u8]) -> Option<Vec<Entry>> {
    let end = directory_end(archive)?;
    let count = number16(archive, end + 10)?;
    let mut at = number32(archive, end + 16)?;
    if count > MAX_ENTRIES || at.checked_add(number32(archive, end + 12)?)? != end {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let header = archive.get(at..end)?;
        if !header.starts_with(b"PK\x01\x02") {
            return None;
        }
        let (name, extra, comment) = (number16(header, 28)?, number16(header, 30)?, number16(header, 32)?);
        let text = String::from_utf8_lossy(header.get(46..46 + name)?).to_ascii_lowercase().replace('\\', "/");
        let text = text.trim_start_matches('/').to_owned();
        let (method, size, offset) = (number16(header, 10)?, number32(header, 20)?, number32(header, 42)?);
        entries.push(Entry { name: text, method: u16::try_from(method).ok()?, size, offset });
        at += 46 + name + extra + comment;
    }
    // Two entries of one name: which of them counts depends on the reader.
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    (at == end && names.windows(2).all(|pair| pair[0] != pair[1])).then_some(entries)
}

/// Where the record that ends the directory begins: its comment must be what is left of the file.
fn directory_end(archive: &[u8]) -> Option<usize> {
    let last = archive.len().checked_sub(22)?;
    let first = last.saturating_sub(usize::from(u16::MAX));
    let is_end =
        |at: &usize| archive[*at..].starts_with(b"PK\x05\x06") && number16(archive, at + 20) == Some(last - at);
    (first..=last).rev().find(is_end)
}

fn number16(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_le_bytes(bytes.try_into().ok()?)))
}

fn number32(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
}
