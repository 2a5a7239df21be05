//! What a database error means to the caller: sorted by what the caller does next.
//!
//! Owns the sorting and the repeating of what collided. Never reads a DETAIL, which holds the values of rows.

use std::{fmt, time::Duration};

use super::OutboxError;

/// How long to wait before a statement that collided with another is made again, each time a little longer.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];

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

/// Runs a statement again while it collides with another (a serialization failure, a deadlock), a few times.
pub(super) async fn repeat<T, Run>(mut run: impl FnMut() -> Run) -> Result<T, OutboxError>
where
    Run: Future<Output = sqlx::Result<T>>,
{
    for pause in PAUSES {
        match run().await {
            Err(error) if has_code(&error, &["40001", "40P01"]) => {
                tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            }
            result => return result.map_err(OutboxError::from),
        }
    }
    run().await.map_err(OutboxError::from)
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

/// Sorts by SQLSTATE (PostgreSQL documentation, appendix A).
fn from_sqlstate(error: &dyn sqlx::error::DatabaseError) -> OutboxError {
    let code = error.code().unwrap_or_default();
    // The message of a data exception (class 22) quotes the value it is about; the others name tables and constraints.
    let message = if code.starts_with("22") { "a value was not accepted" } else { error.message() };
    let text = format!("{message} (SQLSTATE {code})");
    let class = code.get(..2).unwrap_or_default();
    match (class, &*code) {
        // Connection lost, wrong time, out of resources, the server stops or starts or is a standby.
        ("08" | "40" | "53" | "57" | "58", _) | (_, "55P03" | "25006") => OutboxError::Unavailable(text),
        // A value that does not fit, or breaks a rule of the table.
        ("22" | "23", _) => OutboxError::Refused(text),
        // Credentials, rights, a table that is not there, a damaged server: nothing that the message could do about it.
        _ => OutboxError::NotSetUp(text),
    }
}
