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
            let source = fs::read_to_string(&file).expect("a source file can be read");
            for used in used_modules(&source) {
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
        .filter(|module| !FREE_FOR_ALL.contains(&module.as_str()))
        .collect();
    assert_eq!(declared, map.into_keys().collect());
}

#[test]
fn foreign_types_stay_at_home() {
    let homes: [(&str, &[&str]); 5] = [
        ("sqlx::", &["outbox"]),
        ("reqwest::", &["provider"]),
        ("lettre::", &["provider", "message"]),
        ("tonic::Status", &["api", "cli", "bench"]),
        ("proto::v1", &["api", "cli", "bench"]),
    ];
    let mut violations = Vec::new();
    for file in rust_files(Path::new("src")) {
        let module = file.components().nth(1).expect("below src").as_os_str().to_string_lossy().into_owned();
        let module = module.trim_end_matches(".rs");
        let source = fs::read_to_string(&file).expect("a source file can be read");
        for (foreign, allowed) in homes {
            if !allowed.contains(&module) && without_comments_and_tests(&source).contains(foreign) {
                violations.push(format!("{} uses {foreign}", file.display()));
            }
        }
    }
    assert!(violations.is_empty(), "away from home:\n{}", violations.join("\n"));
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

fn without_comments_and_tests(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or(source);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules named behind `crate::`, also in groups.
fn used_modules(source: &str) -> BTreeSet<String> {
    let code = without_comments_and_tests(source);
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => used.extend(names_of_group(group)),
            None => used.extend([leading_name(rest)]),
        }
    }
    used.retain(|name| !name.is_empty());
    used
}

fn names_of_group(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            _ if depth == 0 => names.last_mut().expect("never empty").push(c),
            _ => {}
        }
    }
    names.iter().map(|name| leading_name(name.trim())).collect()
}

fn leading_name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The generated contract is used where protobuf is at home.
fn is_generated_contract(module: &str, used: &str) -> bool {
    used == "proto" && ["api", "cli", "outbox", "bench"].contains(&module)
}
