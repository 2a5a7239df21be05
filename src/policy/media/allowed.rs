//! Which media types may be sent, by the settings.
//!
//! Owns the patterns and what a wildcard never covers.

use std::collections::HashSet;

use super::extension;

/// Types that can carry a program, beside those that extensions stand for: a wildcard never covers them, only their
/// name does.
const PROGRAMS: [&str; 26] = [
    "application/ecmascript",
    "application/java",
    "application/javascript",
    "application/octet-stream",
    "application/postscript",
    "application/rtf",
    "application/vnd.android.dex",
    "application/vnd.ms-cab-compressed",
    "application/vnd.ms-office.vbaproject",
    "application/wasm",
    "application/x-csh",
    "application/x-executable",
    "application/x-java-archive",
    "application/x-javascript",
    "application/x-llvm",
    "application/x-msdos-program",
    "application/x-msdownload",
    "application/x-mso-xml",
    "application/x-ole-storage",
    "application/x-opendocument-macros",
    "application/x-sh",
    "application/x-shellscript",
    "application/x-shockwave-flash",
    "application/x-vhd",
    "text/ecmascript",
    "text/livescript",
];

/// The media types that may be sent.
#[derive(Clone, Debug)]
pub(in crate::policy) struct AllowedTypes {
    names: HashSet<String>,
    kinds: HashSet<String>,
    all: bool,
}

impl AllowedTypes {
    /// The types of patterns such as `application/pdf`, `image/*` and `*/*`. A wildcard covers no type that can carry a
    /// program. What is no pattern covers nothing.
    pub(in crate::policy) fn new(patterns: &[String]) -> Self {
        let mut allowed = Self { names: HashSet::new(), kinds: HashSet::new(), all: false };
        for pattern in patterns {
            let pattern = pattern.trim().to_ascii_lowercase();
            match pattern.split_once('/') {
                Some(("*", "*")) => allowed.all = true,
                Some((kind, "*")) => drop(allowed.kinds.insert(kind.to_owned())),
                _ => drop(allowed.names.insert(pattern)),
            }
        }
        allowed
    }

    /// Whether the settings name the type itself.
    pub(super) fn names(&self, essence: &str) -> bool {
        self.names.contains(essence)
    }

    /// Whether a type (lower-case, without parameters) may be sent.
    pub(super) fn covers(&self, essence: &str) -> bool {
        let kind = essence.split_once('/').map_or("", |(kind, _)| kind);
        self.names(essence) || (!carries_program(essence) && (self.all || self.kinds.contains(kind)))
    }
}

/// Whether content of that type can be run.
pub(super) fn carries_program(essence: &str) -> bool {
    PROGRAMS.contains(&essence) || essence.contains("macroenabled") || extension::is_program_type(essence)
}
