//! The advisory locks, each held for one transaction.
//!
//! Owns their numbers; who takes which, and why, is said where it is taken. Messages are locked by keys of their own.

/// Tables are changed: by a migration, or where days are made.
pub(super) const TABLES: i64 = 0x0070_6f73_7472_6964;

/// A day is emptied.
pub(super) const RETIRE: i64 = TABLES + 1;

/// The tally is folded.
pub(super) const FOLD: i64 = TABLES + 2;
