//! What a session, or a transaction where sessions are not ours, begins with.
//!
//! Owns the settings under which every statement runs; opens no connection.

use crate::config;

/// How Postgres plans the statements of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::outbox) enum Plans {
    /// Anew each time, for the values at hand: so that only the tables of the days concerned are opened. A plan made once
    /// for all would be made while the tables are empty and then be kept.
    Fresh,
    /// Once for all. For statements that are made all the time, whose planning takes longer than their work, and that
    /// can be planned in one way only: rows are only inserted, or each is looked for by an index.
    Kept,
}

impl Plans {
    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Fresh => &[("plan_cache_mode", "force_custom_plan")],
            // A table that is empty while the plan is made would be read as a whole for ever after.
            Self::Kept => &[("plan_cache_mode", "force_generic_plan"), ("enable_seqscan", "off")],
        }
    }
}

/// What every session or transaction begins with besides.
const SETTINGS: [(&str, &str); 4] = [
    // Whoever takes the first of many rows in order must not gather and sort all of them, which looks cheap for as long
    // as Postgres has not noticed how many there are. Nor is a statement of a millisecond worth compiling.
    ("enable_bitmapscan", "off"),
    ("jit", "off"),
    // What was answered is committed, whatever the server's default.
    ("synchronous_commit", "on"),
    // Whoever vanishes within a transaction must not keep its rows from those who take over.
    ("idle_in_transaction_session_timeout", "'10s'"),
];

/// The statements are written for this level, whatever the server's default. A default that is set within a transaction
/// is one for the next, so that a transaction has to begin with the level itself.
const SESSION_LEVEL: (&str, &str) = ("default_transaction_isolation", "\"read committed\"");
pub(super) const BEGIN: &str = "begin isolation level read committed;";

/// What a session of ours begins with, each statement ended by a semicolon.
pub(super) fn session_begins(settings: &config::Database, plans: Plans) -> String {
    statements("set", settings, &[plans.settings(), &[SESSION_LEVEL]].concat())
}

/// What each transaction begins with where sessions are not ours.
pub(super) fn transaction_begins(settings: &config::Database, plans: Plans) -> String {
    statements("set local", settings, plans.settings())
}

fn statements(set: &str, settings: &config::Database, more: &[(&str, &str)]) -> String {
    // A temporary table that somebody left on the connection is found last and not, as it would be, first.
    let path = format!("{}, pg_temp", quoted(&settings.schema));
    let all = [&[("search_path", &*path)], &SETTINGS[..], more].concat();
    all.into_iter().map(|(name, value)| format!("{set} {name} = {value};")).collect::<Vec<_>>().join(" ")
}

/// A name as SQL reads it, whatever it contains.
pub(in crate::outbox) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
