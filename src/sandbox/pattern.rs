//! Which addresses a fault is for.
//!
//! Owns the matching; what happens to an address that matches is the fault's business.

use std::{fmt, str::FromStr};

/// An address, or several by a pattern in which `*` stands for any run of characters. Case does not matter.
#[derive(Clone, PartialEq, Eq)]
pub struct AddressPattern(String);

impl AddressPattern {
    /// The pattern of that text, for example `carol@example.org` or `*@bad.example`.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.trim().to_lowercase())
    }

    /// Whether the address is meant.
    pub fn matches(&self, address: &str) -> bool {
        let address = address.to_lowercase();
        let mut parts = self.0.split('*');
        // `split` gives at least one part, the whole pattern when it has no `*`.
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = address.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

impl FromStr for AddressPattern {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

impl fmt::Display for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Without the address.
impl fmt::Debug for AddressPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressPattern(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_and_case_does_not_matter() {
        let table = [
            ("carol@example.org", "Carol@Example.org", true),
            ("carol@example.org", "carol@example.orga", false),
            ("*@bad.example", "a@bad.example", true),
            ("*@bad.example", "a@good.example", false),
            ("bad*", "bad.one@example.org", true),
            ("*+bad@*", "x+bad@example.org", true),
            ("*a*a", "a", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*", "anyone@example.org", true),
        ];
        for (pattern, address, matches) in table {
            assert_eq!(AddressPattern::new(pattern).matches(address), matches, "{pattern} {address}");
        }
    }

    #[test]
    fn debug_shows_no_address() {
        assert!(!format!("{:?}", AddressPattern::new("carol@example.org")).contains("carol"));
    }
}
