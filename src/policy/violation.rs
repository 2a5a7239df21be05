//! What is wrong with a request, and how it is listed.
//!
//! Owns the list; the rules are its neighbours'.

/// The most violations that are listed: enough for any request that is meant, and no memory for one that is not.
const MAX_LISTED: usize = 1_000;

/// One thing that is wrong with a request. Holds no content, so that it may be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field in the API, for example `email.to[2].address`.
    pub field: String,
    /// What is wrong with it, as a phrase that follows the field's name: "has no \"@\"".
    pub description: String,
}

/// Everything that is wrong, as it is found.
#[derive(Debug, Default)]
pub(super) struct Violations {
    listed: Vec<Violation>,
    unlisted: usize,
}

impl Violations {
    /// One more. Beyond what can be listed it is only counted.
    pub(super) fn add(&mut self, field: impl Into<String>, description: impl Into<String>) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(Violation { field: field.into(), description: description.into() });
        } else {
            self.unlisted += 1;
        }
    }

    /// Whether nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The list; a last entry says how many there was no room for.
    pub(super) fn into_listed(mut self) -> Vec<Violation> {
        if self.unlisted > 0 {
            let description = format!("has {} more violations, which are not listed", self.unlisted);
            self.listed.push(Violation { field: "email".to_owned(), description });
        }
        self.listed
    }
}

/// Checks a text that stands on one line: its length in characters, and that nothing in it could end the line.
pub(super) fn check_line(field: &str, text: &str, max_chars: usize, violations: &mut Violations) {
    let chars = text.chars().count();
    if chars > max_chars {
        violations.add(field, format!("has {chars} characters; the limit is {max_chars}"));
    }
    if text.chars().any(is_control) {
        violations.add(field, "has a control character, such as a line end or a tab");
    }
}

/// A control character, or one of the two that Unicode has for ends of lines and paragraphs besides.
pub(super) fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}
