//! Where settings come from: one TOML file and the environment, merged into one tree that remembers each value's place.
//!
//! Owns finding and parsing; knows neither which settings there are nor which types they have.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt, fs,
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{problem::Problems, summary::Entry};

/// The variable that names the settings file.
const FILE_VARIABLE: &str = "POSTRIDER_CONFIG";
/// What the name of a variable that holds a setting begins with.
const PREFIX: &str = "POSTRIDER_";
/// What stands between two levels in the name of a variable.
const SEPARATOR: &str = "__";

/// Where a value was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// In that line of the file, from 1.
    Line(usize),
    /// In that environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(line) => write!(f, "line {line}"),
            Origin::Variable(name) => f.write_str(name),
        }
    }
}

/// Settings by name. It may hold secrets, so nothing here has a `Debug`.
pub(super) type Table = BTreeMap<String, Node>;

/// A value or a table, and where it was found.
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) content: Content,
}

/// What a name stands for.
pub(super) enum Content {
    Table(Table),
    Value(Raw),
}

/// A value before it is known which type it should have.
pub(super) enum Raw {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    List(Vec<Raw>),
    /// A table in a list.
    Table(Table),
    /// The text of an environment variable, which may be meant as any type.
    Word(String),
    /// What no setting is: a date, a number that fits in no type.
    Other(String),
}

/// The variables of the environment that are readable as text.
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Keeps what begins with the prefix. A variable that is empty counts as not set.
    pub(super) fn new<K, V>(variables: impl IntoIterator<Item = (K, V)>, problems: &mut Problems) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let mut kept = BTreeMap::new();
        for (name, value) in variables {
            let Ok(name) = name.into().into_string() else { continue };
            if !name.starts_with(PREFIX) {
                continue;
            }
            match value.into().into_string() {
                Ok(value) if value.is_empty() => {}
                Ok(value) => {
                    kept.insert(name, value);
                }
                Err(_) => problems.add_line(format!("{name}: expected UTF-8")),
            }
        }
        Self(kept)
    }

    /// The settings file: the one asked for, else the one that `POSTRIDER_CONFIG` names, else `postrider.toml` in
    /// `directory` if it is there.
    pub(super) fn locate(&self, asked_for: Option<&Path>, directory: &Path) -> Option<PathBuf> {
        asked_for.map(Path::to_owned).or_else(|| self.0.get(FILE_VARIABLE).map(PathBuf::from)).or_else(|| {
            let usual = directory.join("postrider.toml");
            usual.exists().then(|| usual.strip_prefix(".").map(Path::to_owned).unwrap_or(usual))
        })
    }

    /// Lays the variables over the tree. Names below `providers` are matched to those in the file without regard to
    /// case, and with `-` and `_` taken for the same, since the name of a variable can hold neither.
    pub(super) fn overlay(&self, tree: &mut Table, problems: &mut Problems) {
        for (name, value) in &self.0 {
            // A variable without a separator is no setting: in Kubernetes a service of that name adds several.
            let Some((section, rest)) = name[PREFIX.len()..].split_once(SEPARATOR) else { continue };
            let mut path: Vec<String> = vec![section.to_lowercase()];
            path.extend(rest.split(SEPARATOR).map(str::to_lowercase));
            if let (Some(Content::Table(named)), true) =
                (tree.get(&path[0]).map(|node| &node.content), matches!(path[0].as_str(), "providers" | "chains"))
                && let Some(known) = named.keys().find(|known| same_name(known, &path[1]))
            {
                path[1] = known.clone();
            }
            insert(tree, &path, "", name, value, problems);
        }
    }

    /// A variable that names one of the known settings but for single underscores between the levels would be ignored,
    /// and is hardly meant so.
    pub(super) fn find_single_underscores<'a>(
        &self,
        known: impl IntoIterator<Item = &'a Entry>,
        problems: &mut Problems,
    ) {
        for Entry { table, key, .. } in known {
            let meant = format!("{table}.{key}").replace('-', "_").to_uppercase();
            let single = format!("{PREFIX}{}", meant.replace('.', "_"));
            if self.0.contains_key(&single) {
                let double = format!("{PREFIX}{}", meant.replace('.', SEPARATOR));
                problems.add_line(format!("{single}: unknown setting, did you mean {double}?"));
            }
        }
    }
}

/// Whether two names are the same in the name of an environment variable.
pub(super) fn same_name(a: &str, b: &str) -> bool {
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    plain(a) == plain(b)
}

fn insert(table: &mut Table, path: &[String], above: &str, variable: &str, value: &str, problems: &mut Problems) {
    let [first, rest @ ..] = path else { return };
    let origin = Origin::Variable(variable.to_owned());
    if rest.is_empty() {
        table.insert(first.clone(), Node { origin, content: Content::Value(Raw::Word(value.to_owned())) });
        return;
    }
    let node = table.entry(first.clone()).or_insert_with(|| Node { origin, content: Content::Table(Table::new()) });
    let here = format!("{above}{first}");
    if let Content::Value(_) = node.content {
        problems.set_origin(&here, &node.origin);
        problems.add(&here, None, "expected a table");
        node.content = Content::Table(Table::new());
    }
    if let Content::Table(inner) = &mut node.content {
        insert(inner, rest, &format!("{here}."), variable, value, problems);
    }
}

/// Reads the file as a tree. What is wrong with the file as TOML is a problem; its text is not quoted, since it may
/// hold a secret.
pub(super) fn read_file(path: &Path, problems: &mut Problems) -> Table {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            problems.add_line(format!("{}: cannot be read: {error}", path.display()));
            return Table::new();
        }
    };
    let lines = Lines(&text);
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let line = error.span().map(|span| format!(" (line {})", lines.at(span.start))).unwrap_or_default();
        problems.add_line(format!("{}: not valid TOML: {}{line}", path.display(), error.message()));
    }
    lines.table(table.get_ref())
}

/// The text of the file, to tell lines by.
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn at(&self, offset: usize) -> usize {
        self.0.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        table.iter().map(|(key, value)| (key.get_ref().to_string(), self.node(key.span().start, value))).collect()
    }

    fn node(&self, offset: usize, value: &Spanned<DeValue<'_>>) -> Node {
        let content = match value.get_ref() {
            DeValue::Table(table) => Content::Table(self.table(table)),
            other => Content::Value(self.raw(other)),
        };
        Node { origin: Origin::Line(self.at(offset)), content }
    }

    fn raw(&self, value: &DeValue<'_>) -> Raw {
        match value {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Boolean(value) => Raw::Bool(*value),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Raw::Other(number.as_str().to_owned()), Raw::Integer),
            DeValue::Float(number) => {
                number.as_str().parse().map_or_else(|_| Raw::Other(number.as_str().to_owned()), Raw::Float)
            }
            DeValue::Array(items) => Raw::List(items.iter().map(|item| self.raw(item.get_ref())).collect()),
            DeValue::Datetime(_) => Raw::Other("a date".to_owned()),
            DeValue::Table(table) => Raw::Table(self.table(table)),
        }
    }
}
