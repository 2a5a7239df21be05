//! Rules for the subject and the bodies.
//!
//! Owns no limit on their size: that is on the message as a whole.

use super::violation::{Violations, check_line};

/// The longest subject, in characters.
const MAX_SUBJECT: usize = 998;

pub(super) fn check_subject(subject: &str, violations: &mut Violations) {
    check_line("email.subject", subject, MAX_SUBJECT, violations);
}

pub(super) fn check_bodies(text: Option<&str>, html: Option<&str>, violations: &mut Violations) {
    if text.is_none() && html.is_none() {
        violations.add("email.text", "is empty, and so is email.html; at least one of them is required");
    }
}
