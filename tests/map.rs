//! Holds the table in `src/lib.rs` against what the modules really use.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const FREE_FOR_ALL: [&str; 2] = ["config", "telemetry"];

#[test]
fn every_module_uses_only_what_the_map_allows() {
    let map = read_map();
    let mut violations = Vec::new();
    for (module, allowed) in &map {
        for file in rust_files(&module_root(module)) {
            for used in used_modules(&read_code(&file)) {
                let fine = used == *module || allowed.contains(&used) || FREE_FOR_ALL.contains(&used.as_str());
                if !fine && !is_generated_contract(module, &used) {
                    violations.push(format!("{} uses {used}", file.display()));
                }
            }
        }
    }
    assert!(violations.is_empty(), "not in the map of src/lib.rs:\n{}", violations.join("\n"));
}

#[test]
fn every_module_stands_in_the_map() {
    let map = read_map();
    let declared: BTreeSet<String> = fs::read_to_string("src/lib.rs")
        .expect("src/lib.rs can be read")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("pub mod ")?.strip_suffix(';')?.to_owned()))
        .collect();
    assert_eq!(declared, map.into_keys().collect());
}

#[test]
fn foreign_types_stay_at_home() {
    let homes: [(&str, &[&str]); 5] = [
        ("sqlx", &["outbox"]),
        ("reqwest", &["provider"]),
        ("lettre", &["provider", "message"]),
        ("tonic::Status", &["api", "cli", "bench"]),
        ("crate::proto::v1", &["api", "cli", "bench"]),
    ];
    let mut violations = Vec::new();
    for file in rust_files(Path::new("src")) {
        let module = file.components().nth(1).expect("below src").as_os_str().to_string_lossy().into_owned();
        let module = module.trim_end_matches(".rs");
        let paths = paths(&read_code(&file));
        for (foreign, allowed) in homes {
            let below = format!("{foreign}::");
            let is_used = paths.iter().any(|path| path == foreign || path.starts_with(&below));
            if is_used && !allowed.contains(&module) {
                violations.push(format!("{} uses {foreign}", file.display()));
            }
        }
    }
    assert!(violations.is_empty(), "away from home:\n{}", violations.join("\n"));
}

#[test]
fn uses_are_seen_wherever_they_stand() {
    let source = "\
//! use crate::comment;
#[cfg(test)]
mod example;

use crate::{
    chain::{self, Chain},
    outbox as store,
};
use tonic::{Code, Status as Answer};

fn f() -> Option<crate::health::Board> {
    sqlx::query!(\"select 1\") // crate::behind_a_line is read, too much rather than too little
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::sandbox;
}

use crate::policy;
";
    let code = without_comments_and_tests(source);
    let modules = ["behind_a_line", "chain", "health", "outbox", "policy"].map(str::to_owned);
    assert_eq!(used_modules(&code), BTreeSet::from(modules));
    for path in ["crate::chain::self", "crate::chain::Chain", "tonic::Code", "tonic::Status", "sqlx::query"] {
        assert!(paths(&code).contains(path), "{path}");
    }
}

/// The table: a module, and what it may use.
fn read_map() -> BTreeMap<String, BTreeSet<String>> {
    let source = fs::read_to_string("src/lib.rs").expect("src/lib.rs can be read");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | [`"));
    let map: BTreeMap<_, _> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            let module = cells[0].trim().trim_end_matches("`]").to_owned();
            let allowed = cells[2].split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            (module, allowed.collect())
        })
        .collect();
    assert!(map.len() > 10, "the table was not found");
    map
}

fn module_root(module: &str) -> PathBuf {
    let folder = PathBuf::from("src").join(module);
    if folder.is_dir() { folder } else { folder.with_extension("rs") }
}

fn rust_files(root: &Path) -> Vec<PathBuf> {
    if root.is_file() {
        return vec![root.to_owned()];
    }
    let entries = fs::read_dir(root).expect("a module's folder can be read");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    paths.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] }).collect()
}

fn read_code(file: &Path) -> String {
    without_comments_and_tests(&fs::read_to_string(file).expect("a source file can be read"))
}

/// The code without lines of comment and without modules of tests that stand in it. Tests in files of their own are
/// held to the map like all other files.
fn without_comments_and_tests(source: &str) -> String {
    let mut code = Vec::new();
    let mut lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line != "#[cfg(test)]" {
            code.push(line);
            continue;
        }
        let item = lines.by_ref().find(|line| !line.starts_with("#[")).expect("an attribute has an item");
        if item.ends_with('{') {
            // Formatted code ends an item at the margin where it begins.
            lines.by_ref().find(|line| *line == "}").expect("an item ends");
        }
    }
    code.join("\n")
}

/// The modules named behind `crate::`.
fn used_modules(code: &str) -> BTreeSet<String> {
    let below_crate = |path: String| path.strip_prefix("crate::")?.split("::").next().map(str::to_owned);
    paths(code).into_iter().filter_map(below_crate).collect()
}

/// Every path of more than one name, groups taken apart: `a::{b, c::d}` gives `a::b` and `a::c::d`.
fn paths(code: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut rest = code;
    while let Some(start) = rest.find(is_of_name) {
        rest = read_path("", &rest[start..], &mut paths);
    }
    paths
}

/// Reads a path at the beginning of the text, and gives what follows it.
fn read_path<'a>(above: &str, text: &'a str, paths: &mut BTreeSet<String>) -> &'a str {
    let (name, rest) = text.split_at(text.find(|c| !is_of_name(c)).unwrap_or(text.len()));
    let path = if above.is_empty() { name.to_owned() } else { format!("{above}::{name}") };
    match rest.strip_prefix("::") {
        Some(group) if group.starts_with('{') => read_group(&path, &group[1..], paths),
        Some(below) if below.starts_with(is_of_name) => read_path(&path, below, paths),
        _ => {
            if path.contains("::") {
                paths.insert(path);
            }
            rest
        }
    }
}

/// Reads the members of a group up to its brace, and gives what follows it.
fn read_group<'a>(above: &str, mut text: &'a str, paths: &mut BTreeSet<String>) -> &'a str {
    loop {
        text = text.trim_start();
        if text.starts_with(is_of_name) {
            text = read_path(above, text, paths);
        }
        // A new name (`as …`) tells nothing.
        let end = text.find([',', '}']).expect("a group ends");
        let is_last = text[end..].starts_with('}');
        text = &text[end + 1..];
        if is_last {
            return text;
        }
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The generated contract is used where protobuf is at home.
fn is_generated_contract(module: &str, used: &str) -> bool {
    used == "proto" && ["api", "cli", "outbox", "bench"].contains(&module)
}
