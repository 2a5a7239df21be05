//! Rules for attachments: names, identifiers, and whether their type may be sent.
//!
//! Owns the judgement; how a type is found is the neighbour module's.

use std::collections::HashSet;

use super::{
    draft::DraftAttachment,
    filled,
    media::{AllowedTypes, Judgement, judge},
    violation::{Violations, is_control},
};
use crate::message::{Attachment, MediaType};

/// The longest file name, in bytes: what file systems take.
const MAX_FILENAME: usize = 255;
/// The longest content id, in bytes.
const MAX_CONTENT_ID: usize = 128;

/// The attachments as they will be sent. `allowed` is which types may be; without it types are not looked at.
pub(super) fn parse(
    drafts: Vec<DraftAttachment>,
    max: usize,
    allowed: Option<&AllowedTypes>,
    violations: &mut Violations,
) -> Vec<Attachment> {
    if drafts.len() > max {
        violations.add("email.attachments", format!("has {} attachments; the limit is {max}", drafts.len()));
        return Vec::new();
    }
    let mut content_ids = HashSet::new();
    let mut attachments = Vec::with_capacity(drafts.len());
    for (index, draft) in drafts.into_iter().enumerate() {
        let field = format!("email.attachments[{index}]");
        check_filename(&format!("{field}.filename"), &draft.filename, violations);
        check_content_id(&format!("{field}.content_id"), &draft.content_id, violations);
        if !draft.content_id.is_empty() && !content_ids.insert(draft.content_id.clone()) {
            violations.add(format!("{field}.content_id"), "is that of another attachment too");
        }
        let declared = check_content_type(&format!("{field}.content_type"), &draft.content_type, violations);
        if draft.content.is_empty() {
            violations.add(format!("{field}.content"), "is empty");
        }
        let Some(allowed) = allowed.filter(|_| !draft.content.is_empty()) else { continue };
        let judgement = judge(&draft.content, &draft.filename, declared.as_ref(), allowed);
        report(&field, &judgement, violations);
        attachments.push(Attachment {
            content_type: filled(draft.content_type).unwrap_or_else(|| judgement.found.to_owned()),
            filename: draft.filename,
            content: draft.content,
            content_id: filled(draft.content_id),
        });
    }
    attachments
}

fn report(field: &str, judgement: &Judgement<'_>, violations: &mut Violations) {
    let not_allowed = "which is not among the attachment types that the settings allow";
    if !judgement.content_allowed {
        let description = format!("is found to be {}, {not_allowed}", judgement.found);
        violations.add(format!("{field}.content"), description);
    }
    if let Some(extension) = judgement.refused_extension {
        let description = format!("ends in \".{extension}\", by which it may be run as a program");
        violations.add(format!("{field}.filename"), description);
    }
    if !judgement.declared_allowed {
        violations.add(format!("{field}.content_type"), "is not among the attachment types that the settings allow");
    }
}

fn check_filename(field: &str, name: &str, violations: &mut Violations) {
    // A name that reads backwards hides what it ends in ("…fdp.exe" for "…exe.pdf").
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if name.is_empty() {
        violations.add(field, "is empty");
    }
    if name.len() > MAX_FILENAME {
        violations.add(field, format!("has {} bytes; the limit is {MAX_FILENAME}", name.len()));
    }
    if name.chars().any(is_control) {
        violations.add(field, "has a control character, such as a line end or a tab");
    }
    if name.chars().any(turns) {
        violations.add(field, "has a character that changes the direction of text");
    }
    if name.contains(['/', '\\']) || name == "." || name == ".." {
        violations.add(field, "is a path; only a name is allowed, without \"/\" and \"\\\"");
    }
}

/// The declared type, if one was declared and it is one.
fn check_content_type(field: &str, declared: &str, violations: &mut Violations) -> Option<MediaType> {
    if declared.is_empty() {
        return None;
    }
    match MediaType::parse(declared) {
        // They must not be encoded for transfer (RFC 2046, section 5), and all that Postrider sends is.
        Ok(media) if matches!(media.kind(), "message" | "multipart") => {
            violations.add(field, "is of the kind message or multipart, which cannot be attached");
            None
        }
        Ok(media) => Some(media),
        Err(error) => {
            violations.add(field, error.to_string());
            None
        }
    }
}

fn check_content_id(field: &str, id: &str, violations: &mut Violations) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.@".contains(c);
    if id.len() > MAX_CONTENT_ID || !id.chars().all(is_part) {
        let alphabet = "ASCII letters, digits and the marks of an address, without angle brackets";
        violations.add(field, format!("is not made of at most {MAX_CONTENT_ID} {alphabet}"));
    }
}
