//! What only the benchmark asks of the database: the plainest insert there is, counts, and the end of its own schema.
//!
//! Exists for the benchmark only: nothing here is called by a service.

use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

use super::{
    Outbox, OutboxError,
    database::{Database, quoted},
};

/// How the name of every schema begins that [`Outbox::drop_benchmark`] may drop.
pub const BENCHMARK_SCHEMA: &str = "postrider_bench_";

/// The target of the log line that each statement writes at level `debug`.
pub const STATEMENT_TARGET: &str = "sqlx::query";

/// A table of two columns, and the least that accepting a message could cost: one row in it.
pub struct Floor {
    database: Database,
}

impl Floor {
    /// Makes the table. The connections are the outbox's own.
    pub async fn new(outbox: &Outbox) -> Result<Self, OutboxError> {
        let database = outbox.database.clone();
        // No migration makes it, so that the statements on it cannot be checked when this is compiled.
        sqlx::query("create table if not exists floor (id uuid primary key, content bytea not null)")
            .execute(&database)
            .await?;
        Ok(Self { database })
    }

    /// Commits one row.
    pub async fn insert(&self, content: &[u8]) -> Result<(), OutboxError> {
        sqlx::query("insert into floor (id, content) values ($1, $2)")
            .bind(Uuid::now_v7())
            .bind(content)
            .execute(&self.database)
            .await?;
        Ok(())
    }
}

impl Outbox {
    /// How many messages still need something.
    pub async fn count_pending(&self) -> Result<u64, OutboxError> {
        let count =
            sqlx::query_scalar!(r#"select count(*) as "count!" from pending"#).fetch_one(&self.database).await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// How many messages are SUCCESS_SENT.
    pub async fn count_sent(&self) -> Result<u64, OutboxError> {
        let count = sqlx::query_scalar!(r#"select count(*) as "count!" from event where status = 'SUCCESS_SENT'"#)
            .fetch_one(&self.database)
            .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// How many bytes of write-ahead log the whole server has written.
    pub async fn wal_bytes(&self) -> Result<u64, OutboxError> {
        let bytes =
            sqlx::query_scalar!(r#"select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint as "bytes!""#)
                .fetch_one(&self.database)
                .await?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// The server's version, without what a distribution adds.
    pub async fn server_version(&self) -> Result<String, OutboxError> {
        let version =
            sqlx::query_scalar!(r#"select split_part(current_setting('server_version'), ' ', 1) as "version!""#)
                .fetch_one(&self.database)
                .await?;
        Ok(version)
    }

    /// Drops the schema with all that is in it. Refused for any schema but one of the benchmark's own.
    pub async fn drop_benchmark(&self) -> Result<(), OutboxError> {
        if !self.schema.starts_with(BENCHMARK_SCHEMA) {
            return Err(OutboxError::Refused(format!("{} is not a schema of the benchmark", self.schema)));
        }
        let mut connection = self.database.connection_apart().await?;
        // Without its notice of how much goes with it.
        let sql = format!("set client_min_messages = warning; drop schema if exists {} cascade", quoted(&self.schema));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }
}
