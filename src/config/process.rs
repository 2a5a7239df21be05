//! What one process does: the settings.
//!
//! Owns the roles; how each is played is elsewhere.

use std::{collections::BTreeSet, fmt, str::FromStr};

use super::{
    section::{Section, Visitor},
    source::Raw,
    value::{Choice, Value},
};

/// What this process does.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its roles, all by default: `api`, `dispatch`, `maintain`. Any number of processes may share one database, each
    /// with any of them; somebody has to have each.
    pub roles: Roles,
}

impl Section for Process {
    fn visit(self, v: &mut impl Visitor) -> Self {
        Self { roles: v.any("roles", self.roles) }
    }
}

/// A part that a process can play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Answers calls.
    Api,
    /// Sends what was accepted.
    Dispatch,
    /// Makes days ahead, removes what was kept long enough, keeps counts short.
    Maintain,
}

impl Role {
    /// The word used in settings, on the command line and in SQL.
    pub fn as_str(self) -> &'static str {
        let word = Self::WORDS.iter().find(|(role, _)| *role == self).map(|(_, word)| *word);
        word.unwrap_or_default()
    }
}

impl Choice for Role {
    const WORDS: &'static [(Self, &'static str)] =
        &[(Role::Api, "api"), (Role::Dispatch, "dispatch"), (Role::Maintain, "maintain")];
}

/// One or more roles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    /// Whether that is one of them.
    pub fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }

    /// Each of them, in one order.
    pub fn iter(&self) -> impl Iterator<Item = Role> {
        self.0.iter().copied()
    }
}

impl Default for Roles {
    fn default() -> Self {
        Self(Role::WORDS.iter().map(|(role, _)| *role).collect())
    }
}

/// Words with commas between them.
impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.iter().map(Role::as_str).collect();
        f.write_str(&words.join(","))
    }
}

/// Why words are no roles.
#[derive(Debug, thiserror::Error)]
#[error("expected {}", Roles::expected().trim_end_matches(','))]
pub struct UnknownRole;

/// Words with commas between them.
impl FromStr for Roles {
    type Err = UnknownRole;

    fn from_str(words: &str) -> Result<Self, UnknownRole> {
        Self::read(&Raw::Word(words.to_owned())).ok_or(UnknownRole)
    }
}

impl Value for Roles {
    fn expected() -> String {
        format!("a list of one or more of {},", Role::expected())
    }

    fn read(raw: &Raw) -> Option<Self> {
        let words = Vec::<String>::read(raw)?;
        let roles = words.into_iter().map(|word| Role::read(&Raw::Word(word))).collect::<Option<BTreeSet<_>>>()?;
        (!roles.is_empty()).then_some(Self(roles))
    }

    fn show(&self) -> String {
        let words: Vec<String> = self.0.iter().map(Value::show).collect();
        format!("[{}]", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_from_words_and_shown_as_the_file_has_them() {
        let roles: Roles = "maintain, api".parse().unwrap();
        assert_eq!((roles.show().as_str(), roles.to_string().as_str()), (r#"["api", "maintain"]"#, "api,maintain"));
        assert!(roles.has(Role::Api) && !roles.has(Role::Dispatch));
        assert_eq!(Roles::default().show(), r#"["api", "dispatch", "maintain"]"#);
    }

    #[test]
    fn nothing_and_what_is_no_role_are_refused() {
        for words in ["", "api,", "api,mail", "API"] {
            let error = words.parse::<Roles>().unwrap_err();
            assert_eq!(error.to_string(), r#"expected a list of one or more of "api", "dispatch" or "maintain""#);
        }
    }
}
