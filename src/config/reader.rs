//! Reads a tree of values into the structs of settings, and notes everything that is wrong on the way.
//!
//! Owns what can be said of each setting alone: unknown, missing, of the wrong type, out of bounds, unreadable.

use std::{collections::BTreeMap, fs, path::PathBuf};

use secrecy::SecretString;

use super::{
    problem::{Problems, nearest},
    section::{Rule, Section, Visitor},
    source::{Content, Node, Raw, Table},
    value::Value,
};

/// Reads one table. What is not asked for by the end is unknown.
pub(super) struct Reader<'a> {
    path: String,
    table: Table,
    known: Vec<&'static str>,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    /// Reads the whole tree into that section, from its defaults.
    pub(super) fn read<S: Section>(tree: Table, defaults: S, problems: &'a mut Problems) -> S {
        Reader { path: String::new(), table: tree, known: Vec::new(), problems }.finish(defaults)
    }

    fn finish<S: Section>(mut self, section: S) -> S {
        let section = section.visit(&mut self);
        for (key, node) in std::mem::take(&mut self.table) {
            let path = self.path_of(&key);
            let hint = match nearest(&key, self.known.iter().copied()) {
                Some(meant) => format!("unknown setting, did you mean {}?", self.path_of(meant)),
                None => "unknown setting".to_owned(),
            };
            self.problems.set_origin(&path, &node.origin);
            self.problems.add(&path, None, &hint);
        }
        section
    }

    fn path_of(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    fn take(&mut self, key: &'static str) -> Option<Node> {
        self.known.push(key);
        let node = self.table.remove(key)?;
        self.problems.set_origin(&self.path_of(key), &node.origin);
        Some(node)
    }

    fn take_table(&mut self, key: &'static str) -> Table {
        match self.take(key).map(|node| node.content) {
            Some(Content::Table(table)) => table,
            Some(Content::Value(_)) => {
                self.problems.add(&self.path_of(key), None, "expected a table");
                Table::new()
            }
            None => Table::new(),
        }
    }

    fn inner(&mut self, path: String, table: Table) -> Reader<'_> {
        Reader { path, table, known: Vec::new(), problems: self.problems }
    }

    /// The text of a secret given as value. Its value is in no complaint.
    fn secret_value(&mut self, key: &'static str) -> Option<SecretString> {
        match self.take(key)?.content {
            Content::Value(Raw::Text(text) | Raw::Word(text)) if !text.is_empty() => Some(text.into()),
            _ => {
                self.problems.add(&self.path_of(key), None, "expected a text that is not empty");
                None
            }
        }
    }

    /// The secret that a file holds, without the line end that editors leave.
    fn secret_in(&mut self, key: &'static str, file: &PathBuf) -> Option<SecretString> {
        let wrong = match fs::read_to_string(file) {
            Ok(text) => match text.trim_end_matches(['\r', '\n']) {
                "" => "the file is empty".to_owned(),
                secret => return Some(secret.into()),
            },
            Err(error) => format!("the file cannot be read: {error}"),
        };
        self.problems.add(&self.path_of(key), Some(&file.show()), &wrong);
        None
    }
}

impl Visitor for Reader<'_> {
    fn setting<T: Value>(&mut self, key: &'static str, value: Option<T>, rule: Rule<T>) -> Option<T> {
        let path = self.path_of(key);
        let Some(node) = self.take(key) else {
            if value.is_none() && matches!(rule, Rule::Required) {
                self.problems.add(&path, None, &format!("missing, {}", expectation(&rule)));
            }
            return value;
        };
        let shown = match node.content {
            Content::Value(raw) => match T::read(&raw) {
                Some(read) if allows(&rule, &read) => return Some(read),
                _ => raw.show(),
            },
            Content::Table(_) => "a table".to_owned(),
        };
        self.problems.add(&path, Some(&shown), &expectation(&rule));
        value
    }

    fn secret(
        &mut self,
        (key, file_key): (&'static str, &'static str),
        value: Option<SecretString>,
        file: Option<PathBuf>,
    ) -> (Option<SecretString>, Option<PathBuf>) {
        let given = self.secret_value(key);
        let file = self.optional(file_key, file);
        match (given, file) {
            (Some(given), None) => (Some(given), None),
            // From here on it is as if the secret had been given as value.
            (None, Some(file)) => (self.secret_in(file_key, &file), None),
            (Some(given), Some(file)) => {
                let what = format!("given besides {}, expected only one of the two", self.path_of(file_key));
                self.problems.add(&self.path_of(key), None, &what);
                (Some(given), Some(file))
            }
            (None, None) => (value, None),
        }
    }

    fn section<S: Section>(&mut self, key: &'static str, section: S) -> S {
        let (path, table) = (format!("{}.", self.path_of(key)), self.take_table(key));
        self.inner(path, table).finish(section)
    }

    fn sections<S: Section>(
        &mut self,
        key: &'static str,
        mut known: BTreeMap<String, S>,
        blank: fn() -> S,
    ) -> BTreeMap<String, S> {
        let above = self.path_of(key);
        for (name, node) in self.take_table(key) {
            let path = format!("{above}.{name}");
            self.problems.set_origin(&path, &node.origin);
            match node.content {
                Content::Table(table) => {
                    let section = known.remove(&name).unwrap_or_else(blank);
                    let section = self.inner(format!("{path}."), table).finish(section);
                    known.insert(name, section);
                }
                Content::Value(_) => self.problems.add(&path, None, "expected a table"),
            }
        }
        known
    }

    fn list<S: Section + Default>(&mut self, key: &'static str, known: Vec<S>) -> Vec<S> {
        let path = self.path_of(key);
        let items = match self.take(key).map(|node| node.content) {
            None => return known,
            Some(Content::Value(Raw::List(items))) => items,
            Some(Content::Value(_) | Content::Table(_)) => {
                let what = format!("expected tables, each under [[{key}]] in the file");
                self.problems.add(&path, None, &what);
                return known;
            }
        };
        let mut list = Vec::new();
        for (nth, item) in items.into_iter().enumerate() {
            match item {
                Raw::Table(table) => list.push(self.inner(format!("{path}[{nth}]."), table).finish(S::default())),
                other => self.problems.add(&path, Some(&other.show()), "expected a table"),
            }
        }
        list
    }

    fn values<T: Value>(&mut self, key: &'static str, mut known: BTreeMap<String, T>) -> BTreeMap<String, T> {
        let above = self.path_of(key);
        for (name, node) in self.take_table(key) {
            let path = format!("{above}.{name}");
            self.problems.set_origin(&path, &node.origin);
            let shown = match node.content {
                Content::Value(raw) => match T::read(&raw) {
                    Some(value) => {
                        known.insert(name, value);
                        continue;
                    }
                    None => raw.show(),
                },
                Content::Table(_) => "a table".to_owned(),
            };
            self.problems.add(&path, Some(&shown), &expectation::<T>(&Rule::Any));
        }
        known
    }

    fn skip_rest(&mut self) {
        self.table.clear();
    }
}

fn allows<T: Value>(rule: &Rule<T>, value: &T) -> bool {
    match rule {
        Rule::Any | Rule::Required => true,
        Rule::Within(bounds) => bounds.contains(value),
    }
}

fn expectation<T: Value>(rule: &Rule<T>) -> String {
    let expected = T::expected();
    match rule {
        Rule::Any | Rule::Required => format!("expected {}", expected.trim_end_matches(',')),
        Rule::Within(bounds) => {
            let plain = |value: &T| value.show().trim_matches('"').to_owned();
            format!("expected {expected} from {} to {}", plain(bounds.start()), plain(bounds.end()))
        }
    }
}
