//! What there is and what was written, counted by the database.
//!
//! Owns the questions; changes nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::outbox::{Outbox, OutboxError};

/// How long the statistics of sessions that have ended are waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);

/// What the whole server has written so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of write-ahead log.
    pub wal_bytes: u64,
    /// Transactions that wrote something.
    pub transactions: u64,
}

impl Outbox {
    /// How many messages still need something.
    pub async fn count_pending(&self) -> Result<u64, OutboxError> {
        let count =
            sqlx::query_scalar!(r#"select count(*) as "count!" from pending"#).fetch_one(&self.database).await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// How many messages of a client still need something.
    pub async fn count_pending_of(&self, client: &str) -> Result<u64, OutboxError> {
        let count = sqlx::query_scalar!(
            r#"
            select count(*) as "count!"
            from pending
            join lane on lane.id = pending.lane
            where lane.client = $1
            "#,
            client
        )
        .fetch_one(&self.database)
        .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// How many messages are SUCCESS_SENT.
    pub async fn count_sent(&self) -> Result<u64, OutboxError> {
        let count = sqlx::query_scalar!(r#"select count(*) as "count!" from event where status = 'SUCCESS_SENT'"#)
            .fetch_one(&self.database)
            .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// What the whole server has written so far.
    pub async fn written(&self) -> Result<Written, OutboxError> {
        let row = sqlx::query!(
            r#"
            select
                pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint as "wal_bytes!",
                pg_snapshot_xmax(pg_current_snapshot())::text::bigint as "transactions!"
            "#
        )
        .fetch_one(&self.database)
        .await?;
        let whole = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(Written { wal_bytes: whole(row.wal_bytes), transactions: whole(row.transactions) })
    }

    /// How many versions of rows became dead in the schema's tables since they were made. Sessions tell it when they
    /// end, so this waits until the deletion of that many messages from `pending` is known.
    pub async fn dead_rows(&self, messages: u64) -> Result<u64, OutboxError> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let mut last = None;
        loop {
            let row = sqlx::query!(
                r#"
                select
                    coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint as "dead!",
                    coalesce(sum(n_tup_del) filter (where relname = 'pending'), 0)::bigint as "finished!"
                from pg_stat_user_tables
                where schemaname = current_schema()
                "#
            )
            .fetch_one(&self.database)
            .await?;
            let is_known = u64::try_from(row.finished).is_ok_and(|finished| finished >= messages);
            if (is_known && last == Some(row.dead)) || Instant::now() >= deadline {
                return Ok(u64::try_from(row.dead).unwrap_or(0));
            }
            last = Some(row.dead);
            sleep(LOOK).await;
        }
    }

    /// The server's version, without what a distribution adds.
    pub async fn server_version(&self) -> Result<String, OutboxError> {
        let version =
            sqlx::query_scalar!(r#"select split_part(current_setting('server_version'), ' ', 1) as "version!""#)
                .fetch_one(&self.database)
                .await?;
        Ok(version)
    }
}
