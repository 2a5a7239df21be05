//! What only the benchmark asks of the database: floors, rows to stand in the way, counters, and the end of its own schema.
//!
//! Exists for the benchmark only: nothing here is called by a service.

mod counters;
mod reader;
mod rows;

use sqlx::{AssertSqlSafe, Connection, PgPool};
use uuid::Uuid;

use super::{Outbox, OutboxError, database::quoted};

use crate::config;

pub use counters::Written;
pub use reader::Reader;
pub use rows::{DayOver, SURVIVES_ONE_IN};

/// How the name of every schema begins that [`Outbox::drop_benchmark`] may drop.
pub const BENCHMARK_SCHEMA: &str = "postrider_bench_";

/// The target of the log line that each statement writes at level `debug`.
pub const STATEMENT_TARGET: &str = "sqlx::query";

/// What marks a record that is written to the log and to no table.
const PREFIX: &str = "postrider_bench";

/// The least that writing something down could cost: plain statements, on a table of two columns or on none.
pub struct Floor {
    pool: PgPool,
}

impl Floor {
    /// Makes the table, stored as content is. The connections are its own, with nothing but what Postgres does by itself.
    pub async fn new(outbox: &Outbox, settings: &config::Database, connections: u32) -> Result<Self, OutboxError> {
        let pool = outbox.database.plain_pool(settings, connections);
        // No migration makes it, so that the statements on it cannot be checked when this is compiled. Without its notice
        // where another floor has made it.
        sqlx::raw_sql(
            "set client_min_messages = warning; \
             create table if not exists floor (id uuid primary key, content bytea compression lz4 not null) \
             with (toast_tuple_target = 8160)",
        )
        .execute(&pool)
        .await?;
        Ok(Self { pool })
    }

    /// Commits one row.
    pub async fn insert(&self, content: &[u8]) -> Result<(), OutboxError> {
        sqlx::query("insert into floor (id, content) values ($1, $2)")
            .bind(Uuid::now_v7())
            .bind(content)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Commits so many rows by one statement.
    pub async fn insert_batch(&self, contents: &[&[u8]]) -> Result<(), OutboxError> {
        let ids: Vec<Uuid> = contents.iter().map(|_| Uuid::now_v7()).collect();
        sqlx::query("insert into floor (id, content) select id, content from unnest($1, $2) as input (id, content)")
            .bind(ids)
            .bind(contents)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Commits records that stand in the write-ahead log alone: what a commit costs without any table.
    pub async fn log(&self, contents: &[&[u8]]) -> Result<(), OutboxError> {
        sqlx::query(
            "select count(pg_logical_emit_message(true, $1, content)) from unnest($2::bytea[]) as input (content)",
        )
        .bind(PREFIX)
        .bind(contents)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Gives the connections back.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl Outbox {
    /// Drops the schema with all that is in it. Refused for any schema but one of the benchmark's own.
    pub async fn drop_benchmark(&self) -> Result<(), OutboxError> {
        self.refuse_others()?;
        let mut connection = self.database.connection_apart().await?;
        // Without its notice of how much goes with it.
        let sql = format!("set client_min_messages = warning; drop schema if exists {} cascade", quoted(&self.schema));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        connection.close().await?;
        Ok(())
    }

    /// Refuses any schema but one of the benchmark's own.
    fn refuse_others(&self) -> Result<(), OutboxError> {
        if self.schema.starts_with(BENCHMARK_SCHEMA) {
            return Ok(());
        }
        Err(OutboxError::Refused(format!("{} is not a schema of the benchmark", self.schema)))
    }
}
