//! The dropping of days' tables that are over and empty.
//!
//! Owns their way out: taken from their parents, then dropped. Does not decide which; empties none.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{
    Outbox, OutboxError,
    days::{Day, DayState, DayTable, TABLES},
    error::has_code,
};

/// Those who come after a change of tables for the same lock wait for it, so it steps back soon.
const LOCK_TIMEOUT: &str = "lock_timeout = '200ms';";

impl Outbox {
    /// Drops a day's tables if nothing is in them, and says whether that is so. Steps back where somebody still reads
    /// them, or another process is at it: the next time will do.
    pub(super) async fn drop_if_empty(&self, day: Day, tables: &[&DayTable]) -> Result<bool, OutboxError> {
        let is_attached = tables.iter().any(|table| table.state == DayState::Attached);
        if is_attached && !self.is_empty(day).await? {
            return Ok(false);
        }
        let dropped = match self.database.keeps_sessions() {
            true => {
                let mut connection = self.database.connection_apart().await?;
                let dropped = drop_beside_readers(&mut connection, day, tables).await;
                connection.close().await?;
                dropped
            }
            false => self.drop_at_once(day, tables).await,
        };
        match dropped {
            // Lock not available; not there (any more); not attached (any more); being detached already.
            Err(error) if has_code(&error, &["55P03", "40P01", "42P01", "42809", "55000"]) => Ok(true),
            result => Ok(result.map(|()| true)?),
        }
    }

    /// Whether no message of a day is left.
    async fn is_empty(&self, day: Day) -> Result<bool, OutboxError> {
        let (from, to) = day.ids();
        let is_empty = sqlx::query_scalar!(
            r#"select not exists (select from message where id >= $1 and id < $2) as "is_empty!""#,
            from,
            to
        );
        Ok(is_empty.fetch_one(&self.database).await?)
    }

    /// Behind a pooler there is no session that could have a limit of its own for waiting, so it has to be a
    /// transaction: then everybody waits who comes after it, for that long at the most.
    async fn drop_at_once(&self, day: Day, tables: &[&DayTable]) -> sqlx::Result<()> {
        let mut begun = self.database.begin(&format!("set local {LOCK_TIMEOUT}")).await?;
        take_out(begun.connection(), day, tables, "").await?;
        drop_tables(begun.connection(), day).await?;
        begun.commit().await
    }
}

/// Taking a table out concurrently waits for those who read it and lets nobody wait. It cannot be part of a transaction,
/// so an interruption leaves a table half taken out, which the next time goes on with.
async fn drop_beside_readers(connection: &mut PgConnection, day: Day, tables: &[&DayTable]) -> sqlx::Result<()> {
    execute(connection, format!("set {LOCK_TIMEOUT}")).await?;
    take_out(connection, day, tables, "concurrently").await?;
    drop_tables(connection, day).await
}

/// Takes a day's tables from their parents.
async fn take_out(connection: &mut PgConnection, day: Day, tables: &[&DayTable], how: &str) -> sqlx::Result<()> {
    for table in tables {
        let how = match table.state {
            DayState::Attached => how,
            DayState::Detaching => "finalize",
            DayState::Detached => continue,
        };
        let (parent, table) = (table.parent, day.table(table.parent));
        execute(connection, format!("alter table {parent} detach partition {table} {how}")).await?;
    }
    Ok(())
}

/// Drops a day's tables, which nothing can come into any more; what came in until then is not thrown away.
async fn drop_tables(connection: &mut PgConnection, day: Day) -> sqlx::Result<()> {
    if !holds_nothing(connection, &day.table("message")).await? {
        tracing::error!(table = day.table("message"), "messages came in while the table of their day was taken out");
        return Ok(());
    }
    for (parent, _) in TABLES {
        execute(connection, format!("drop table if exists {}", day.table(parent))).await?;
    }
    Ok(())
}

/// Whether a table is empty, or not there.
async fn holds_nothing(connection: &mut PgConnection, table: &str) -> sqlx::Result<bool> {
    let sql = format!("select not exists (select from {table})");
    match sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(connection).await {
        Ok(row) => sqlx::Row::try_get(&row, 0),
        Err(error) if has_code(&error, &["42P01"]) => Ok(true),
        Err(error) => Err(error),
    }
}

async fn execute(connection: &mut PgConnection, sql: String) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}
