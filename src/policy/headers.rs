//! Rules for the caller's own headers.
//!
//! Owns which names are taken; how a header is written is the message's.

use super::{
    draft::DraftHeader,
    violation::{Violations, check_line},
};
use crate::message::Header;

/// The most headers of one email.
const MAX_HEADERS: usize = 50;
/// The longest name: a line has room for it and its colon.
const MAX_NAME: usize = 76;
/// The longest value, in characters.
const MAX_VALUE: usize = 2_000;
/// The most bytes of names and values together: mail servers refuse messages with more than about 100 KB of headers.
const MAX_TOTAL_BYTES: usize = 32 * 1024;

/// Headers that Postrider writes, that say how a message travelled, or that change whom it reaches.
const TAKEN: [&str; 29] = [
    "from",
    "to",
    "cc",
    "bcc",
    "sender",
    "subject",
    "date",
    "message-id",
    "reply-to",
    "mime-version",
    "received",
    "received-spf",
    "return-path",
    "delivered-to",
    "envelope-to",
    "x-envelope-to",
    "x-original-to",
    "apparently-to",
    "errors-to",
    "authentication-results",
    "dkim-signature",
    "domainkey-signature",
    "bimi-indicator",
    "bimi-location",
    // Instructions to a provider, by which a caller could add recipients or change an account's settings.
    "x-smtpapi",
    "x-msys-api",
    "x-mandrill-mailclass",
    "sender.ip",
    "idempotencykey",
];

/// The same for families of headers.
const TAKEN_FAMILIES: [&str; 14] = [
    "content-",
    "resent-",
    "arc-",
    "x-arc-",
    "x-postrider-",
    // Instructions to a provider.
    "x-mailgun-",
    "x-ses-",
    "x-pm-",
    "x-mc-",
    "x-mj-",
    "x-sib-",
    "x-mailin-",
    "x-sg-",
    "resend-",
];

pub(super) fn parse(drafts: Vec<DraftHeader>, violations: &mut Violations) -> Vec<Header> {
    if drafts.len() > MAX_HEADERS {
        violations.add("email.headers", format!("has {} headers; the limit is {MAX_HEADERS}", drafts.len()));
        return Vec::new();
    }
    let total: usize = drafts.iter().map(|header| header.name.len() + header.value.len()).sum();
    if total > MAX_TOTAL_BYTES {
        violations.add("email.headers", format!("has {total} bytes in all; the limit is {MAX_TOTAL_BYTES}"));
    }
    for (index, header) in drafts.iter().enumerate() {
        check_name(&format!("email.headers[{index}].name"), &header.name, violations);
        let field = format!("email.headers[{index}].value");
        if header.value.is_empty() {
            violations.add(&field, "is empty");
        }
        check_line(&field, &header.value, MAX_VALUE, violations);
    }
    drafts.into_iter().map(|DraftHeader { name, value }| Header { name, value }).collect()
}

fn check_name(field: &str, name: &str, violations: &mut Violations) {
    let lower = name.to_ascii_lowercase();
    if name.is_empty() {
        violations.add(field, "is empty");
    } else if name.len() > MAX_NAME {
        violations.add(field, format!("has {} bytes; the limit is {MAX_NAME}", name.len()));
    } else if !name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
        // RFC 5322, section 3.6.8: ftext.
        violations.add(field, "has a character other than printable ASCII, or a space or a colon");
    } else if TAKEN.contains(&lower.as_str()) || TAKEN_FAMILIES.iter().any(|family| lower.starts_with(family)) {
        violations.add(field, "is a header that Postrider or a provider owns and a caller cannot set");
    }
}
