//! Retention: what was kept long enough is removed.
//!
//! Owns the end of messages, with their history and their key, and of the days' tables; the days are made by `days`.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{
    Outbox, OutboxError,
    days::{self, Day, DayState, DayTable, TABLES},
    error::has_code,
    interval::interval,
};
use crate::{config, message::MessageId};

impl Outbox {
    /// Removes messages that were finished longer ago than `finished`, and those that have waited for a person longer
    /// than `unresolved`: content, history and key of each together. Says how many.
    ///
    /// Works in batches, day by day, and drops the table of a day that is over and empty. Any number of processes may
    /// do it at once.
    pub async fn remove_finished(&self, retention: &config::Retention) -> Result<u64, OutboxError> {
        let tables = self.day_tables().await?;
        let now = self.clock.now();
        // A message can be no older than its day, nor finished before it was accepted.
        let youngest = Day::of(now - retention.finished.min(retention.unresolved));
        let over = Day::of(now - retention.finished);
        let mut days: Vec<Day> = tables.iter().map(|table| table.day).filter(|&day| day <= youngest).collect();
        days.dedup();
        let mut removed = 0;
        for day in days {
            removed += self.remove_day(day, retention).await?;
            if day < over && self.is_empty(day).await? {
                let of_day: Vec<&DayTable> = tables.iter().filter(|table| table.day == day).collect();
                self.drop_day(day, &of_day).await?;
            }
        }
        Ok(removed)
    }

    /// Whether a message of that id, were it finished at once, would be gone by now: an unknown id that old may have
    /// been a message.
    pub fn retention_passed(&self, id: MessageId, retention: &config::Retention) -> bool {
        id.time() + retention.finished < self.clock.now()
    }

    /// Removes what was kept long enough of one day.
    async fn remove_day(&self, day: Day, retention: &config::Retention) -> Result<u64, OutboxError> {
        let (from, to) = (day.first_id(), day.plus(1).first_id());
        let mut removed = 0;
        loop {
            let batch = self
                .database
                .repeat(|| async {
                    sqlx::query_file!(
                        "src/outbox/remove.sql",
                        from,
                        to,
                        interval(retention.finished),
                        interval(retention.unresolved),
                        i64::from(retention.batch)
                    )
                    .fetch_one(&self.database)
                    .await
                })
                .await?;
            if batch.unresolved > 0 {
                tracing::warn!(messages = batch.unresolved, "removed messages that nobody had looked at for too long");
            }
            let removed_now = u64::try_from(batch.finished + batch.unresolved).unwrap_or(0);
            removed += removed_now;
            if removed_now == 0 {
                return Ok(removed);
            }
        }
    }

    /// Whether no message of a day is left.
    async fn is_empty(&self, day: Day) -> Result<bool, OutboxError> {
        let is_empty = sqlx::query_scalar!(
            r#"select not exists (select from message where id >= $1 and id < $2) as "is_empty!""#,
            day.first_id(),
            day.plus(1).first_id()
        );
        Ok(is_empty.fetch_one(&self.database).await?)
    }

    /// Drops a day's tables. Steps back where somebody still reads them, or another process is at it: the next time
    /// will do.
    async fn drop_day(&self, day: Day, tables: &[&DayTable]) -> Result<(), OutboxError> {
        let dropped = match self.database.keeps_sessions() {
            true => {
                let mut connection = self.database.connection_apart().await?;
                let dropped = drop_tables(&mut connection, day, tables, "concurrently").await;
                connection.close().await?;
                dropped
            }
            false => self.drop_at_once(day, tables).await,
        };
        match dropped {
            // Lock not available; not there (any more); not attached (any more); being detached already.
            Err(error) if has_code(&error, &["55P03", "40P01", "42P01", "42809", "55000"]) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Behind a pooler there is no session that knows our schema, so it has to be a transaction: whoever wants these
    /// tables waits for it, at most for its lock timeout.
    async fn drop_at_once(&self, day: Day, tables: &[&DayTable]) -> sqlx::Result<()> {
        let mut begun = days::begin(&self.database).await?;
        drop_tables(begun.connection(), day, tables, "").await?;
        begun.commit().await
    }
}

/// Takes a day's tables out and drops them. Taking out concurrently waits for those who read them, and lets nobody
/// wait; it cannot be part of a transaction, so an interruption leaves a table half taken out, which the next time goes
/// on with.
async fn drop_tables(connection: &mut PgConnection, day: Day, tables: &[&DayTable], how: &str) -> sqlx::Result<()> {
    let state = |parent: &str| tables.iter().find(|table| table.parent == parent).map(|table| table.state);
    for (parent, _) in TABLES {
        let detach = match state(parent) {
            Some(DayState::Attached) => how,
            Some(DayState::Detaching) => "finalize",
            Some(DayState::Detached) | None => continue,
        };
        execute(connection, format!("alter table {parent} detach partition {} {detach}", day.table(parent))).await?;
    }
    // Nothing can come in any more; what came in until then is not thrown away.
    if state("message").is_some() && !holds_nothing(connection, &day.table("message")).await? {
        tracing::error!(table = day.table("message"), "messages came in while the table of their day was taken out");
        return Ok(());
    }
    for (parent, _) in TABLES {
        execute(connection, format!("drop table if exists {}", day.table(parent))).await?;
    }
    Ok(())
}

async fn holds_nothing(connection: &mut PgConnection, table: &str) -> sqlx::Result<bool> {
    let sql = format!("select not exists (select from {table})");
    sqlx::query_scalar(AssertSqlSafe(sql)).persistent(false).fetch_one(connection).await
}

async fn execute(connection: &mut PgConnection, sql: String) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}
