//! The settings in force as a list, and printed as the file would have them, secrets masked.
//!
//! Owns the listing only; it reads nothing.

use std::{collections::BTreeMap, path::PathBuf};

use secrecy::SecretString;

use super::{
    section::{Rule, Section, Visitor},
    value::Value,
};

/// What stands in place of a secret.
const MASK: &str = "\"********\"";

/// A setting as it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The table it is in, `providers.backup.breaker`, or `routes[0]` in a list.
    pub(super) table: String,
    /// Its name there.
    pub(super) key: String,
    /// Its value as the file would have it; `None` if it is not set.
    pub(super) value: Option<String>,
}

/// Every setting of the section, in its order.
pub(super) fn entries(section: impl Section) -> Vec<Entry> {
    let mut lister = Lister { table: String::new(), entries: Vec::new() };
    section.visit(&mut lister);
    lister.entries
}

/// The section as TOML.
pub(super) fn print(section: impl Section) -> String {
    let (mut text, mut table) = (String::new(), String::new());
    for entry in entries(section) {
        if entry.table != table {
            let gap = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}{}\n", header(&entry.table)));
            table = entry.table;
        }
        match entry.value {
            Some(value) => text.push_str(&format!("{} = {value}\n", entry.key)),
            None => text.push_str(&format!("# {} is not set\n", entry.key)),
        }
    }
    text
}

/// How a table begins in the file.
fn header(table: &str) -> String {
    match table.split_once('[') {
        Some((list, _)) => format!("[[{list}]]"),
        None => format!("[{table}]"),
    }
}

struct Lister {
    table: String,
    entries: Vec<Entry>,
}

impl Lister {
    fn add(&mut self, key: &str, value: Option<String>) {
        self.entries.push(Entry { table: self.table.clone(), key: key.to_owned(), value });
    }

    fn below<T>(&mut self, key: &str, visit: impl FnOnce(&mut Self) -> T) -> T {
        let above = self.table.clone();
        self.table = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let result = visit(self);
        self.table = above;
        result
    }
}

impl Visitor for Lister {
    fn setting<T: Value>(&mut self, key: &'static str, value: Option<T>, _: Rule<T>) -> Option<T> {
        self.add(key, value.as_ref().map(Value::show));
        value
    }

    fn secret(
        &mut self,
        (key, file_key): (&'static str, &'static str),
        value: Option<SecretString>,
        file: Option<PathBuf>,
    ) -> (Option<SecretString>, Option<PathBuf>) {
        self.add(key, value.as_ref().map(|_| MASK.to_owned()));
        self.add(file_key, file.as_ref().map(Value::show));
        (value, file)
    }

    fn section<S: Section>(&mut self, key: &'static str, section: S) -> S {
        self.below(key, |lister| section.visit(lister))
    }

    fn sections<S: Section>(
        &mut self,
        key: &'static str,
        known: BTreeMap<String, S>,
        _: fn() -> S,
    ) -> BTreeMap<String, S> {
        let list = |lister: &mut Self| {
            known.into_iter().map(|(name, section)| (name.clone(), lister.below(&name, |l| section.visit(l)))).collect()
        };
        self.below(key, list)
    }

    fn list<S: Section + Default>(&mut self, key: &'static str, known: Vec<S>) -> Vec<S> {
        let one = |(nth, section): (usize, S)| self.below(&format!("{key}[{nth}]"), |lister| section.visit(lister));
        known.into_iter().enumerate().map(one).collect()
    }

    fn values<T: Value>(&mut self, key: &'static str, known: BTreeMap<String, T>) -> BTreeMap<String, T> {
        self.below(key, |lister| known.iter().for_each(|(name, value)| lister.add(name, Some(value.show()))));
        known
    }

    fn skip_rest(&mut self) {}
}
