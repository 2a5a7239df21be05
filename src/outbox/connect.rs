//! How the outbox comes to its database: connections, migrations, the database's time.
//!
//! Owns the first contact and the tables' version; what a session begins with is said in `database`.

use std::{sync::Arc, time::Duration};

use secrecy::SecretString;
use sqlx::{Connection, migrate::Migrate};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{
    Lanes, Outbox, OutboxError,
    database::{Database, Plans, quoted},
    locks,
};
use crate::{
    config::{self, Pooling},
    message::Clock,
};

/// A round trip after which the database's time is known well enough.
const QUICK: Duration = Duration::from_millis(2);

impl Outbox {
    /// Connects to the database at `url` and measures its clock. Fails if the database cannot be reached within the
    /// settings' longest wait. The tables are not touched: see [`Outbox::migrate`].
    pub async fn connect(settings: &config::Database, url: &SecretString) -> Result<Self, OutboxError> {
        // Half of the connections are for what is done all the time, so that no crowd of readers holds it up.
        let (few, many) = (settings.max_connections / 2, settings.max_connections.div_ceil(2));
        let database = Database::new(settings, url, few.max(1), Plans::Fresh)?;
        let hot = match settings.pooling {
            Pooling::Session => Database::new(settings, url, many, Plans::Kept)?,
            // Statements without a name are planned each time anyway.
            Pooling::Transaction => Database::new(settings, url, many, Plans::Fresh)?,
        };
        let outbox = Self {
            database,
            hot,
            clock: Clock::default(),
            lanes: Arc::new(Lanes::default()),
            schema: settings.schema.as_str().into(),
        };
        let greeted = tokio::time::timeout(settings.acquire_timeout, outbox.greet()).await;
        greeted.map_err(|_| OutboxError::Unavailable("it does not answer".to_owned()))??;
        Ok(outbox)
    }

    /// Speaks to the database for the first time. A pooler takes connections also while the database itself is away, so
    /// only a statement tells that it is there.
    async fn greet(&self) -> Result<(), OutboxError> {
        // By a connection beside the pool first, which knows why it failed: the pool only says that it did.
        self.database.connection_apart().await?.close().await?;
        self.measure_clock().await
    }

    /// Brings the tables up to date. Several processes may do it at once: one does, the others wait. A database that a
    /// newer version has migrated already is left as it is.
    pub async fn migrate(&self) -> Result<(), OutboxError> {
        let mut migrator = sqlx::migrate!();
        migrator.set_ignore_missing(true);
        migrator.create_schema(quoted(&self.schema));
        // The lock is one of the transaction and not of the session, which may be somebody else's the next moment.
        migrator.set_locking(false);
        let mut begun = self.database.begin("").await?;
        sqlx::query!("select pg_advisory_xact_lock($1)", locks::TABLES).execute(&mut begun).await?;
        let migrated = migrator.run_direct(None, begun.connection(), false).await;
        // Also where it failed: what is rolled back takes no name with it.
        begun.forget_names().await?;
        migrated?;
        begun.commit().await?;
        Ok(())
    }

    /// How many migrations of this version the database lacks.
    pub async fn missing_migrations(&self) -> Result<usize, OutboxError> {
        let migrator = sqlx::migrate!();
        let mut begun = self.database.begin("").await?;
        let has_table =
            sqlx::query_scalar!(r#"select to_regclass($1) is not null as "is_there!""#, &*migrator.table_name)
                .fetch_one(&mut begun)
                .await?;
        let applied = match has_table {
            true => begun.connection().list_applied_migrations(&migrator.table_name).await,
            false => Ok(Vec::new()),
        };
        begun.forget_names().await?;
        let applied = applied?;
        begun.commit().await?;
        let is_applied = |version: i64| applied.iter().any(|applied| applied.version == version);
        Ok(migrator.iter().filter(|migration| !is_applied(migration.version)).count())
    }

    /// The database's time, as last measured.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Measures how far the local clock is from the database's, and corrects [`Outbox::clock`] by it. Of three
    /// measurements the quickest counts: its error is at most half its round trip. One that was quick is enough.
    pub async fn measure_clock(&self) -> Result<(), OutboxError> {
        let mut best: Option<(Duration, time::Duration)> = None;
        for _ in 0..3 {
            let (sent_at, sent) = (OffsetDateTime::now_utc(), Instant::now());
            let theirs = sqlx::query_scalar!(r#"select clock_timestamp() as "now!""#).fetch_one(&self.database).await?;
            let round_trip = sent.elapsed();
            if best.is_none_or(|(shortest, _)| round_trip < shortest) {
                best = Some((round_trip, theirs - (sent_at + round_trip / 2)));
            }
            if round_trip < QUICK {
                break;
            }
        }
        if let Some((_, offset)) = best {
            self.clock.correct(offset);
        }
        Ok(())
    }

    /// Whether the database answers. One statement.
    pub async fn ping(&self) -> Result<(), OutboxError> {
        sqlx::query_scalar!(r#"select true as "is_there!""#).fetch_one(&self.database).await?;
        Ok(())
    }

    /// Gives the connections back. Calls made afterwards fail.
    pub async fn close(&self) {
        self.database.close().await;
        self.hot.close().await;
    }
}
