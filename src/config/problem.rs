//! What is wrong with the settings: one line for each thing, all of them together.
//!
//! Owns how a complaint reads; decides nothing about what is wrong. No value of a secret ever gets here.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use super::source::Origin;

/// Everything that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsErrors {
    file: Option<PathBuf>,
    lines: Vec<String>,
}

impl SettingsErrors {
    /// One line for each thing that is wrong: the setting's path, its value unless it is a secret, what is expected,
    /// and where it stands.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = match self.lines.len() {
            1 => "1 thing is wrong".to_owned(),
            n => format!("{n} things are wrong"),
        };
        match &self.file {
            Some(file) => write!(f, "{count} in the settings ({} and the environment):", file.display())?,
            None => write!(f, "{count} in the settings (from the environment, there is no file):")?,
        }
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// What has been found wrong so far, and where each setting came from.
#[derive(Default)]
pub(super) struct Problems {
    found: Vec<Problem>,
    origins: BTreeMap<String, Origin>,
}

struct Problem {
    path: String,
    line: String,
}

impl Problems {
    /// Remembers where a setting stands, so that what is found wrong with it later can say so.
    pub(super) fn set_origin(&mut self, path: &str, origin: &Origin) {
        self.origins.insert(path.to_owned(), origin.clone());
    }

    /// Whether the setting was given at all, and not left at its default.
    pub(super) fn is_given(&self, path: &str) -> bool {
        self.origins.contains_key(path)
    }

    /// A setting is wrong: `what` says in words what is expected.
    pub(super) fn add(&mut self, path: &str, value: Option<&str>, what: &str) {
        let value = value.map(|value| format!(" = {value}")).unwrap_or_default();
        let place = self.origins.get(path).map(|origin| format!(" ({origin})")).unwrap_or_default();
        self.found.push(Problem { path: path.to_owned(), line: format!("{path}{value}: {what}{place}") });
    }

    /// Something is wrong that belongs to no setting, such as the file itself.
    pub(super) fn add_line(&mut self, line: String) {
        self.found.push(Problem { path: String::new(), line });
    }

    /// Whether nothing has been found wrong with that setting or one below it: only then does it make sense to compare
    /// it with others.
    pub(super) fn is_sound(&self, path: &str) -> bool {
        !self
            .found
            .iter()
            .any(|problem| problem.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    }

    /// Whether nothing has been found wrong so far.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All of it.
    pub(super) fn into_errors(self, file: Option<PathBuf>) -> SettingsErrors {
        SettingsErrors { file, lines: self.found.into_iter().map(|problem| problem.line).collect() }
    }
}

/// The name among `known` that was probably meant.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_unless_none_is_near() {
        let known = ["lease", "lease_renewal", "poll_shortest", "pause"];
        assert_eq!(nearest("leese", known), Some("lease"));
        assert_eq!(nearest("poll_shortset", known), Some("poll_shortest"));
        assert_eq!(nearest("leaserenewal", known), Some("lease_renewal"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn a_problem_below_a_path_makes_the_path_unsound() {
        let mut problems = Problems::default();
        problems.add("providers.a.url", None, "missing");
        assert!(!problems.is_sound("providers.a"));
        assert!(problems.is_sound("providers.a.kind"));
        assert!(problems.is_sound("providers.ab"));
        assert!(problems.is_sound("prov"));
    }
}
