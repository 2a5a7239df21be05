//! Lengths of time as Postgres takes them.
//!
//! Owns the conversion alone: points in time come from the database's clock.

use std::time::Duration;

use sqlx::postgres::types::PgInterval;

/// A length of time for Postgres, to the microsecond; what is longer than Postgres knows is the longest that it knows.
pub(super) fn interval(length: Duration) -> PgInterval {
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(length.as_micros()).unwrap_or(i64::MAX) }
}
