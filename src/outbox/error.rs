//! What a database error means to the caller: sorted by what the caller does next.
//!
//! Owns the sorting. Never reads a DETAIL, which holds the values of rows.

use std::fmt;

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use super::OutboxError;
use crate::message::Priority;

impl From<sqlx::Error> for OutboxError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(database) => from_sqlstate(database.as_ref()),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                Self::Unreadable(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for OutboxError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        match error {
            sqlx::migrate::MigrateError::Execute(error) => error.into(),
            sqlx::migrate::MigrateError::ExecuteMigration(error, version) => match Self::from(error) {
                Self::Refused(reason) => Self::Refused(format!("migration {version}: {reason}")),
                other => other,
            },
            other => Self::Refused(other.to_string()),
        }
    }
}

/// Whether a statement collided with another (a serialization failure, a deadlock): made again it may go well.
pub(super) fn is_collision(error: &sqlx::Error) -> bool {
    has_code(error, &["40001", "40P01"])
}

/// The priority of a column's word.
pub(super) fn read_priority(word: &str) -> Result<Priority, OutboxError> {
    Priority::parse(word).ok_or_else(|| unreadable(format_args!("unknown priority {word}")))
}

/// Whether the connection ended while it was used, so that nobody knows what became of the statement: often it had
/// been closed before, by a server that was restarted.
pub(super) fn is_lost_connection(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_))
        || has_code(error, &["57P01", "57P02", "57P03", "08006"])
        || is_ended_by_a_pooler(error)
}

/// Whether a pooler closed the connection, because it lost its own or was told to. All that pgbouncer ever says is that
/// the protocol was violated, with its reason in words; a server that finds so goes on with the connection.
fn is_ended_by_a_pooler(error: &sqlx::Error) -> bool {
    let postgres = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    has_code(error, &["08P01"]) && postgres.is_some_and(|error| error.severity() == PgSeverity::Fatal)
}

/// Whether the database answered with one of these codes.
pub(super) fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let code = error.as_database_error().and_then(|database| database.code());
    code.is_some_and(|code| codes.contains(&code.as_ref()))
}

/// What was read is not what was written.
pub(super) fn unreadable(what: impl fmt::Display) -> OutboxError {
    OutboxError::Unreadable(what.to_string())
}

/// Whether a row has no table to go to, as when that of its day is not made.
fn lacks_a_table(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.code().as_deref() == Some("23514") && error.constraint().is_none()
}

/// Sorts by SQLSTATE (PostgreSQL documentation, appendix A).
fn from_sqlstate(error: &dyn sqlx::error::DatabaseError) -> OutboxError {
    let code = error.code().unwrap_or_default();
    // The message of a data exception (class 22) quotes the value it is about; the others name tables and constraints.
    let message = if code.starts_with("22") { "a value was not accepted" } else { error.message() };
    let text = format!("{message} (SQLSTATE {code})");
    let class = code.get(..2).unwrap_or_default();
    if lacks_a_table(error) {
        return OutboxError::NotSetUp(text);
    }
    match (class, &*code) {
        // Connection lost, wrong time, out of resources, the server stops or starts or is a standby.
        ("08" | "40" | "53" | "57" | "58", _) | (_, "55P03" | "25006") => OutboxError::Unavailable(text),
        // A value that does not fit, or breaks a rule of the table.
        ("22" | "23", _) => OutboxError::Refused(text),
        // Credentials, rights, a table that is not there, a damaged server: nothing that the message could do about it.
        _ => OutboxError::NotSetUp(text),
    }
}
