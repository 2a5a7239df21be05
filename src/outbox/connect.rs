//! How the outbox comes to its database: connections, migrations, the database's time.
//!
//! Owns the settings of a session; knows no table.

use std::{str::FromStr, sync::Arc, time::Duration};

use secrecy::{ExposeSecret, SecretString};
use sqlx::{
    ConnectOptions, Connection, PgConnection,
    migrate::Migrate,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{Lanes, Outbox, OutboxError};
use crate::{config, message::Clock};

impl Outbox {
    /// Connects to the database at `url` and measures its clock. Fails if the database cannot be reached within the
    /// settings' longest wait. The tables are not touched: see [`Outbox::migrate`].
    pub async fn connect(settings: &config::Database, url: &SecretString) -> Result<Self, OutboxError> {
        let options = session(settings, url)?;
        let pool = PgPoolOptions::new()
            .max_connections(settings.max_connections)
            .acquire_timeout(settings.acquire_timeout)
            .connect_lazy_with(options.clone());
        let outbox = Self {
            pool,
            clock: Clock::default(),
            lanes: Arc::new(Lanes::default()),
            schema: settings.schema.as_str().into(),
            apart: options,
        };
        // By a connection beside the pool first, which knows why it failed: the pool only says that it did.
        let first = tokio::time::timeout(settings.acquire_timeout, outbox.connection_apart()).await;
        let first = first.map_err(|_| OutboxError::Unavailable("it does not answer".to_owned()))?;
        first?.close().await?;
        outbox.measure_clock().await?;
        Ok(outbox)
    }

    /// Brings the tables up to date. Several processes may do it at once: one does, the others wait. A database that a
    /// newer version has migrated already is left as it is.
    pub async fn migrate(&self) -> Result<(), OutboxError> {
        let mut migrator = sqlx::migrate!();
        migrator.set_ignore_missing(true);
        migrator.create_schema(quoted(&self.schema));
        // On a connection of its own: the lock that keeps others waiting goes with it, also when a migration fails.
        let mut connection = self.connection_apart().await?;
        migrator.run_direct(None, &mut connection, false).await?;
        connection.close().await?;
        Ok(())
    }

    /// How many migrations of this version the database lacks.
    pub async fn missing_migrations(&self) -> Result<usize, OutboxError> {
        let migrator = sqlx::migrate!();
        let mut connection = self.connection_apart().await?;
        let has_table =
            sqlx::query_scalar!(r#"select to_regclass($1) is not null as "is_there!""#, &*migrator.table_name)
                .fetch_one(&mut connection)
                .await?;
        let applied = match has_table {
            true => connection.list_applied_migrations(&migrator.table_name).await?,
            false => Vec::new(),
        };
        connection.close().await?;
        let is_applied = |version: i64| applied.iter().any(|applied| applied.version == version);
        Ok(migrator.iter().filter(|migration| !is_applied(migration.version)).count())
    }

    /// The database's time, as last measured.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Measures how far the local clock is from the database's, and corrects [`Outbox::clock`] by it. Of three
    /// measurements the quickest counts: its error is at most half its round trip.
    pub async fn measure_clock(&self) -> Result<(), OutboxError> {
        let mut best: Option<(Duration, time::Duration)> = None;
        for _ in 0..3 {
            let (sent_at, sent) = (OffsetDateTime::now_utc(), Instant::now());
            let theirs = sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#).fetch_one(&self.pool).await?;
            let round_trip = sent.elapsed();
            if best.is_none_or(|(shortest, _)| round_trip < shortest) {
                best = Some((round_trip, theirs - (sent_at + round_trip / 2)));
            }
        }
        if let Some((_, offset)) = best {
            self.clock.correct(offset);
        }
        Ok(())
    }

    /// Gives the connections back. Calls made afterwards fail.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// A connection beside the pool, for what must not leave a trace in a session that others use.
    pub(super) async fn connection_apart(&self) -> Result<PgConnection, OutboxError> {
        Ok(self.apart.connect().await?)
    }
}

/// What every session begins with.
fn session(settings: &config::Database, url: &SecretString) -> Result<PgConnectOptions, OutboxError> {
    // The error of a URL that cannot be parsed is not passed on: it may hold the password.
    let options = PgConnectOptions::from_str(url.expose_secret())
        .map_err(|_| OutboxError::Refused("the database's URL cannot be parsed".into()))?;
    let search_path = quoted(&settings.schema);
    Ok(options.application_name("postrider").options([
        ("search_path", search_path.as_str()),
        // A plan made once for all would be made while the tables are empty and then be kept: it reads everything, and
        // every day's partition.
        ("plan_cache_mode", "force_custom_plan"),
        // Whoever takes the first of many rows in order must not gather and sort all of them, which looks cheap for as
        // long as Postgres has not noticed how many there are. Nor is a statement of a millisecond worth compiling.
        ("enable_bitmapscan", "off"),
        ("jit", "off"),
        // What was answered is committed, whatever the server's default.
        ("synchronous_commit", "on"),
        ("default_transaction_isolation", "read committed"),
    ]))
}

/// A name as SQL reads it, whatever it contains.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
