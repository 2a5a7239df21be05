//! Tests that hold the example file against the structs.
//!
//! Owns no setting: whoever adds one is told here that the example lacks it.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ApiProvider, ApiService, Chain, Dkim, HttpProvider, Position, Provider, ProviderKind, Route, Settings,
    SmtpProvider, load_in,
    problem::Problems,
    source::{self, Content, Raw, Table},
    summary::{Entry, entries},
};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/postrider.toml");

/// The example with every setting in force: a line that begins with # and a small letter is a setting, and one that
/// begins with # and a bracket is the head of a table.
fn uncommented() -> String {
    let text = std::fs::read_to_string(EXAMPLE).unwrap();
    // A setting begins with its name at once; a list goes on with indented values and a bracket.
    let is_setting = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            || ["    \"", "[", "]"].iter().any(|s| text.starts_with(s))
    };
    let line = |line: &str| match line.strip_prefix('#') {
        Some(setting) if is_setting(setting) => setting.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The same, with a provider of each further kind, and the tables, that the example shows without having them in force.
fn all_kinds() -> Settings {
    let mut settings = defaults();
    if let Some(ProviderKind::Smtp(smtp)) = settings.providers.get_mut("backup").map(|backup| &mut backup.kind) {
        smtp.dkim.insert("shop".to_owned(), Dkim::new("", ""));
    }
    let services = [
        ("sendgrid", ApiService::sendgrid()),
        ("mailgun", ApiService::mailgun()),
        ("postmark", ApiService::postmark()),
        ("resend", ApiService::Resend),
        ("ses", ApiService::ses("eu-central-1", "AKIAIOSFODNN7EXAMPLE")),
        ("brevo", ApiService::Brevo),
    ];
    let account = |(name, service): (&str, ApiService)| {
        (name.to_owned(), Provider::new(ProviderKind::Api(ApiProvider::new(service))))
    };
    settings.providers.extend(services.map(account));
    settings
}

/// Settings as they come by default, with the providers and the chain of the example.
fn defaults() -> Settings {
    let http = HttpProvider::new("http://127.0.0.1:8025/v1/emails");
    let smtp = SmtpProvider::new("smtp.example.com");
    Settings {
        providers: BTreeMap::from([
            ("primary".to_owned(), Provider::new(ProviderKind::Http(http))),
            ("backup".to_owned(), Provider::new(ProviderKind::Smtp(smtp))),
        ]),
        chains: BTreeMap::from([("default".to_owned(), ["primary", "backup"].into_iter().collect())]),
        ..Settings::default()
    }
}

/// The same with the chain and the route that stand in it for an example.
fn with_examples() -> Settings {
    let mut settings = all_kinds();
    settings.chains.insert("bulk".to_owned(), Chain::new(vec![Position::new([("primary", 3), ("backup", 1)])]));
    settings.routes.push(Route { priorities: vec!["BULK".to_owned()], chain: "bulk".to_owned(), ..Route::default() });
    settings
}

/// The names in a tree of the file.
fn names(table: &Table, above: &str, found: &mut BTreeSet<String>) {
    for (key, node) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match &node.content {
            Content::Table(inner) => names(inner, &path, found),
            Content::Value(Raw::List(items)) if above.is_empty() => {
                for (nth, item) in items.iter().enumerate() {
                    let Raw::Table(inner) = item else { panic!("{path}: not a list of tables") };
                    names(inner, &format!("{path}[{nth}]"), found);
                }
            }
            Content::Value(_) => {
                found.insert(path);
            }
        }
    }
}

fn read(text: &str) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("example.toml");
    std::fs::write(&file, text).unwrap();
    let mut problems = Problems::default();
    let tree = source::read_file(&file, &mut problems);
    assert!(problems.is_empty(), "{}", problems.into_errors(Some(file)));
    tree
}

fn path(entry: &Entry) -> String {
    format!("{}.{}", entry.table, entry.key)
}

#[test]
fn the_example_has_every_setting_and_no_other() {
    let mut found = BTreeSet::new();
    names(&read(&uncommented()), "", &mut found);
    // What all kinds have is explained once.
    let by_all = ["concurrency", "rate_per_second", "throttle_rest", "account_rest", "when_busy"];
    // The kinds with an API of their own have these too.
    let by_apis = ["key", "key_file", "url", "connect_timeout", "timeout", "ca_file"];
    let is_shared = |entry: &Entry| {
        let Some(provider) = entry.table.strip_prefix("providers.") else { return false };
        match provider {
            "primary" | "primary.breaker" => false,
            _ if provider.ends_with(".breaker") || by_all.contains(&entry.key.as_str()) => true,
            "backup" | "backup.dkim.shop" | "sendgrid" => false,
            _ => by_apis.contains(&entry.key.as_str()),
        }
    };
    let expected: BTreeSet<String> =
        entries(with_examples()).iter().filter(|entry| !is_shared(entry)).map(path).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_example_shows_every_default_as_it_is() {
    let mut problems = Problems::default();
    let shown = super::Reader::read(read(&uncommented()), Settings::default(), &mut problems);
    let shown: BTreeMap<String, Option<String>> =
        entries(shown).into_iter().map(|entry| (path(&entry), entry.value)).collect();
    for entry in entries(with_examples()).iter().filter(|entry| entry.value.is_some()) {
        assert_eq!(shown[&path(entry)], entry.value, "{}", path(entry));
    }
    // Nothing is wrong in it but what the reader is meant to choose from: a secret as value and as file.
    let errors = problems.into_errors(None);
    assert!(errors.lines().iter().all(|line| line.contains("expected only one of the two")), "{errors}");
}

#[test]
fn the_example_works_once_the_database_is_named() {
    let database = [("POSTRIDER_DATABASE__URL", "postgres://postrider@localhost/postrider")];
    let settings = load_in(std::path::Path::new("/nonexistent"), Some(EXAMPLE.as_ref()), database).unwrap();
    assert_eq!(settings.warnings(), Vec::<String>::new());
    let without_database = |settings: Settings| {
        entries(settings).into_iter().filter(|entry| entry.table != "database").collect::<Vec<_>>()
    };
    assert_eq!(without_database(settings), without_database(defaults()));
}

#[test]
fn every_setting_of_the_example_is_explained() {
    let text = std::fs::read_to_string(EXAMPLE).unwrap();
    let mut explained = false;
    for line in text.lines() {
        let is_setting = line.trim_start_matches('#').starts_with(|first: char| first.is_ascii_lowercase());
        match line {
            "" => explained = false,
            _ if line.starts_with("# ") => explained = true,
            _ if is_setting
                && !["kind", "default", "bulk"].iter().any(|word| line.trim_start_matches('#').starts_with(word)) =>
            {
                assert!(explained, "{line}");
            }
            _ => {}
        }
    }
}
