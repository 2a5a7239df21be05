//! A value that was measured, with its unit and the goal for it.
//!
//! Owns how it is written; what it is held against is the line's.

use std::fmt;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// So many a second.
    PerSecond,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Millions of bytes.
    Megabytes,
    /// Bytes.
    Bytes,
    /// So many.
    Count,
}

impl Unit {
    /// Behind the name, in JSON.
    fn suffix(self) -> &'static str {
        match self {
            Unit::PerSecond => "per_second",
            Unit::Milliseconds => "ms",
            Unit::Seconds => "seconds",
            Unit::Megabytes => "mb",
            Unit::Bytes => "bytes",
            Unit::Count => "",
        }
    }

    /// Behind the value, for people.
    fn sign(self) -> &'static str {
        match self {
            Unit::PerSecond => "/s",
            Unit::Milliseconds => " ms",
            Unit::Seconds => " s",
            Unit::Megabytes => " MB",
            Unit::Bytes => " B",
            Unit::Count => "",
        }
    }
}

/// A value that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is, in lower case, words joined by underscores.
    pub name: &'static str,
    /// The value.
    pub value: f64,
    /// In what.
    pub unit: Unit,
    /// The goal for it: no more than that.
    pub at_most: Option<f64>,
}

impl Figure {
    /// A figure without a goal of its own.
    pub fn new(name: &'static str, value: f64, unit: Unit) -> Self {
        Self { name, value, unit, at_most: None }
    }

    /// The figure with the goal of being no more than that.
    pub fn at_most(self, limit: f64) -> Self {
        Self { at_most: Some(limit), ..self }
    }

    pub(super) fn key(&self) -> String {
        [self.name, self.unit.suffix()].join("_").trim_end_matches('_').to_owned()
    }

    fn words(&self) -> String {
        self.name.replace('_', " ")
    }

    pub(super) fn goal(&self) -> Option<String> {
        Some(format!("{} ≤ {}", self.words(), Amount(self.at_most?, self.unit)))
    }

    pub(super) fn is_met(&self) -> bool {
        self.at_most.is_none_or(|limit| self.value <= limit)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.words(), Amount(self.value, self.unit))
    }
}

/// A value with its unit, to three digits or whole.
struct Amount(f64, Unit);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0.abs() {
            size if size >= 100.0 => 0,
            size if size >= 10.0 => 1,
            _ => 2,
        };
        let mut text = format!("{:.*}", digits, self.0);
        if digits == 0 {
            group_thousands(&mut text);
        } else {
            text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
        }
        write!(f, "{text}{}", self.1.sign())
    }
}

fn group_thousands(digits: &mut String) {
    let first = usize::from(digits.starts_with('-'));
    let mut at = digits.len();
    while at > first + 3 {
        at -= 3;
        digits.insert(at, ',');
    }
}
