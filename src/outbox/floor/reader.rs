//! Somebody's long transaction: it has read every table and stays open.
//!
//! Owns the transaction; while it is there, no dead row can be cleaned away and no table it has read can go.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::outbox::{Outbox, OutboxError, database::quoted};

/// A transaction that stays open. Dropping it ends the session.
pub struct Reader {
    connection: PgConnection,
}

impl Outbox {
    /// Opens a transaction that sees all there is now and no more, and reads every table of the schema.
    pub async fn read_everything(&self) -> Result<Reader, OutboxError> {
        let reads = self.each_table().await?.into_iter().map(|table| format!("select exists (select from {table});"));
        let sql = format!(
            "set idle_in_transaction_session_timeout = 0; begin isolation level repeatable read; {}",
            reads.collect::<String>()
        );
        let mut connection = self.database.connection_apart().await?;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
        Ok(Reader { connection })
    }

    /// Collects the planner's statistics of the schema's tables as they are.
    pub async fn analyze(&self) -> Result<(), OutboxError> {
        let sql = format!("analyze {}", self.each_table().await?.join(", "));
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.database).await?;
        Ok(())
    }

    /// The names of all tables of the schema, as SQL reads them.
    async fn each_table(&self) -> Result<Vec<String>, OutboxError> {
        let names = sqlx::query_scalar!(
            r#"
            select relname::text as "name!"
            from pg_class
            where relnamespace = current_schema()::regnamespace
                and relkind in ('r', 'p')
            order by relname
            "#
        )
        .fetch_all(&self.database)
        .await?;
        Ok(names.iter().map(|name| quoted(name)).collect())
    }
}

impl Reader {
    /// Ends the transaction.
    pub async fn close(mut self) -> Result<(), OutboxError> {
        sqlx::raw_sql("commit").execute(&mut self.connection).await?;
        self.connection.close().await?;
        Ok(())
    }
}
