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

/// Runs a statement again while it collides with another (a serialization failure, a deadlock), a few times, and once
/// where its connection turns out to be closed. It has to be one that may be made again after its answer was lost.
pub(super) async fn repeat<T, Run>(mut run: impl FnMut() -> Run) -> Result<T, OutboxError>
where
    Run: Future<Output = sqlx::Result<T>>,
{
    let mut reconnected = false;
    let mut pauses = PAUSES.into_iter();
    loop {
        match run().await {
            Err(error) if is_lost_connection(&error) && !reconnected => reconnected = true,
            Err(error) if has_code(&error, &["40001", "40P01"]) => match pauses.next() {
                Some(pause) => tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await,
                None => return Err(error.into()),
            },
            result => return result.map_err(OutboxError::from),
        }
    }
}

/// Whether the connection ended while it was used, so that nobody knows what became of the statement: often it had
/// been closed before, by a server that was restarted.
pub(super) fn is_lost_connection(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_))
        || has_code(error, &["57P01", "57P02", "57P03", "08006"])
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
