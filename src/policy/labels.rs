//! Rules for what is kept with an email and is not in it: tags, metadata, the document type.
//!
//! Owns their sizes and alphabets; what they are used for is not known here.

use std::collections::{BTreeMap, HashSet};

use super::violation::{Violations, check_line, is_control};

const MAX_TAGS: usize = 10;
const MAX_TAG: usize = 64;
const MAX_METADATA: usize = 50;
const MAX_METADATA_KEY: usize = 64;
const MAX_METADATA_VALUE: usize = 500;
const MAX_DOCUMENT_TYPE: usize = 64;

pub(super) fn check_tags(tags: &[String], violations: &mut Violations) {
    if tags.len() > MAX_TAGS {
        violations.add("email.tags", format!("has {} tags; the limit is {MAX_TAGS}", tags.len()));
        return;
    }
    for (index, tag) in tags.iter().enumerate() {
        let field = format!("email.tags[{index}]");
        if tag.is_empty() {
            violations.add(&field, "is empty");
        }
        check_line(&field, tag, MAX_TAG, violations);
    }
}

pub(super) fn check_metadata(metadata: &BTreeMap<String, String>, violations: &mut Violations) {
    let field = "email.metadata";
    if metadata.len() > MAX_METADATA {
        violations.add(field, format!("has {} keys; the limit is {MAX_METADATA}", metadata.len()));
        return;
    }
    for (key, value) in metadata {
        let chars = key.chars().count();
        if chars == 0 || chars > MAX_METADATA_KEY || key.chars().any(is_control) {
            let limits = format!("1 to {MAX_METADATA_KEY} characters without control characters");
            violations.add(field, format!("has a key that is not {limits}"));
        }
        check_line(&metadata_path(key), value, MAX_METADATA_VALUE, violations);
    }
}

/// The path of a value. A key is the caller's text: it is named only where it is short and plain.
fn metadata_path(key: &str) -> String {
    let plain = key.len() <= MAX_METADATA_KEY && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if plain { format!("email.metadata[\"{key}\"]") } else { "email.metadata".to_owned() }
}

/// `listed` is what the settings allow; nothing listed means any or none.
pub(super) fn check_document_type(document_type: &str, listed: &HashSet<String>, violations: &mut Violations) {
    let field = "email.document_type";
    let is_word = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    if document_type.len() > MAX_DOCUMENT_TYPE || !document_type.bytes().all(is_word) {
        violations.add(field, format!("is not made of at most {MAX_DOCUMENT_TYPE} of A-Z, 0-9 and \"_\""));
    } else if !listed.is_empty() && !listed.contains(document_type) {
        let problem = if document_type.is_empty() { "is required" } else { "is not one that the settings allow" };
        violations.add(field, format!("{problem}; there are {} document types in the settings", listed.len()));
    }
}
