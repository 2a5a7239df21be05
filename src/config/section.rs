//! How a struct of settings says which settings it has: once, for reading, for printing and for the tests.
//!
//! Owns the two traits; the readers and printers are visitors elsewhere.

use std::{collections::BTreeMap, ops::RangeInclusive, path::PathBuf};

use secrecy::SecretString;

use super::value::Value;

/// A struct of settings.
pub(super) trait Section: Sized {
    /// Shows each setting to the visitor and takes what it gives back. The struct is built anew from what comes back, so
    /// the compiler sees to it that no field is forgotten.
    fn visit(self, v: &mut impl Visitor) -> Self;
}

/// What a setting's value must be, besides its type.
pub(super) enum Rule<T> {
    /// Anything of the type.
    Any,
    /// Within these bounds.
    Within(RangeInclusive<T>),
    /// It has no default and must be given.
    Required,
}

/// Who goes through the settings.
pub(super) trait Visitor {
    /// One setting with its present value, if it has one.
    fn setting<T: Value>(&mut self, key: &'static str, value: Option<T>, rule: Rule<T>) -> Option<T>;

    /// A secret, and the file that can hold it instead. Reading turns the file into the value.
    fn secret(
        &mut self,
        keys: (&'static str, &'static str),
        value: Option<SecretString>,
        file: Option<PathBuf>,
    ) -> (Option<SecretString>, Option<PathBuf>);

    /// A table of settings.
    fn section<S: Section>(&mut self, key: &'static str, section: S) -> S;

    /// A table of named tables, each beginning as `blank`.
    fn sections<S: Section>(
        &mut self,
        key: &'static str,
        known: BTreeMap<String, S>,
        blank: fn() -> S,
    ) -> BTreeMap<String, S>;

    /// A list of tables.
    fn list<S: Section + Default>(&mut self, key: &'static str, known: Vec<S>) -> Vec<S>;

    /// A table of named values.
    fn values<T: Value>(&mut self, key: &'static str, known: BTreeMap<String, T>) -> BTreeMap<String, T>;

    /// The rest of this table cannot be judged, since what came before is wrong.
    fn skip_rest(&mut self);

    /// A setting with a default.
    fn any<T: Value>(&mut self, key: &'static str, value: T) -> T {
        self.setting(key, Some(value.clone()), Rule::Any).unwrap_or(value)
    }

    /// A setting with a default and bounds.
    fn within<T: Value>(&mut self, key: &'static str, value: T, bounds: RangeInclusive<T>) -> T {
        self.setting(key, Some(value.clone()), Rule::Within(bounds)).unwrap_or(value)
    }

    /// A setting that may be left out.
    fn optional<T: Value>(&mut self, key: &'static str, value: Option<T>) -> Option<T> {
        self.setting(key, value, Rule::Any)
    }

    /// A setting that may be left out, with bounds.
    fn optional_within<T: Value>(
        &mut self,
        key: &'static str,
        value: Option<T>,
        bounds: RangeInclusive<T>,
    ) -> Option<T> {
        self.setting(key, value, Rule::Within(bounds))
    }
}
