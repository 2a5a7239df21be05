//! Holds the README against the program and the examples.
//!
//! What a test cannot know (that a client of another language compiles, what a person sees) is not tried here.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::Parser;
use postrider::{
    api::Reason,
    cli::Cli,
    config,
    delivery::{Class, Status},
};

use crate::support::postgres::Database;

/// A fenced block: its language, and its lines.
struct Block {
    language: String,
    text: String,
}

fn readme() -> String {
    fs::read_to_string("README.md").expect("the README can be read")
}

fn blocks(language: &str) -> Vec<Block> {
    let readme = readme();
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let Some(found) = line.strip_prefix("```") else { continue };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block { language: found.to_owned(), text: inside.join("\n") });
    }
    blocks.retain(|block| block.language == language);
    assert!(!blocks.is_empty(), "the README has no block of {language}");
    blocks
}

#[test]
fn every_state_class_and_reason_stands_in_its_table() {
    let readme = readme();
    let rows: BTreeSet<&str> = readme.lines().filter(|line| line.starts_with("| ")).collect();
    let has_row = |word: &str| rows.iter().any(|row| row.contains(&format!("| `{word}` |")));
    for word in Status::ALL.map(Status::as_str) {
        assert!(has_row(word), "no row for the status {word}");
    }
    for word in Class::ALL.map(Class::as_str) {
        assert!(has_row(word), "no row for the class {word}");
    }
    for word in Reason::ALL.map(Reason::as_str) {
        assert!(has_row(word), "no row for the reason {word}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let readme = readme();
    let targets = readme.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let missing: Vec<&str> = targets.filter(|target| !target.contains("://") && !Path::new(target).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_command_line_is_understood() {
    let mut tried = 0;
    for block in blocks("sh") {
        for command in block.text.replace("\\\n", " ").lines() {
            let Some(arguments) = command.trim().strip_prefix("target/debug/postrider ") else { continue };
            tried += 1;
            let words = std::iter::once("postrider".to_owned()).chain(split(arguments));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }
    assert!(tried > 0);
}

/// Words as a shell splits them, as far as the README needs it: blanks, and single quotes.
fn split(arguments: &str) -> Vec<String> {
    let quoted = arguments.split('\'').enumerate();
    quoted
        .flat_map(|(i, part)| match i % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

#[test]
fn the_settings_are_valid() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocks = blocks("toml");
    for block in &blocks {
        // What is a part only is shown beside the first, which is whole.
        let is_whole = block.text.contains("[database]");
        let text = if is_whole { block.text.clone() } else { format!("{}\n{}", blocks[0].text, block.text) };
        for secret in text.split("/run/secrets/").skip(1).filter_map(|rest| rest.split('"').next()) {
            fs::write(folder.path().join(secret), "secret").expect("a file");
        }
        let file = folder.path().join("postrider.toml");
        fs::write(&file, text.replace("/run/secrets", &folder.path().to_string_lossy())).expect("a file");
        let settings = config::load(Some(&file), Vec::<(String, String)>::new()).expect("valid settings");
        assert_eq!(settings.chains["default"].providers().collect::<Vec<_>>(), ["gateway", "relay"]);
    }
}

#[tokio::test]
async fn the_queries_of_the_outbox_run() {
    let database = Database::new().await;
    let queries: Vec<Block> =
        blocks("sql").into_iter().filter(|block| block.text.contains("postrider.outbox")).collect();
    assert!(!queries.is_empty());
    for block in queries {
        database.execute(&block.text).await;
    }
}

#[test]
fn every_snippet_is_part_of_an_example() {
    for (language, folder) in [
        ("java", "deploy/examples/java"),
        ("go", "deploy/examples/go"),
        ("python", "deploy/examples/python"),
        ("rust", "deploy/examples/rust/src"),
    ] {
        let mut sources: Vec<Vec<String>> = files(Path::new(folder)).iter().map(|file| code(&read(file))).collect();
        sources.push(code(&read(Path::new("src/provider/mod.rs"))));
        for block in blocks(language) {
            let snippet = code(&block.text);
            let found = sources.iter().any(|source| source.windows(snippet.len()).any(|part| part == snippet));
            assert!(found, "no example has this:\n{}", block.text);
        }
    }
}

/// The lines of code, without their indentation.
fn code(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("///")).map(str::to_owned).collect()
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of an example").map(|entry| entry.expect("an entry").path());
    let mut files = Vec::new();
    for path in entries {
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files
}
