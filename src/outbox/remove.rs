//! Removal in batches: messages that nobody looked at for too long, and keys whose messages are gone.
//!
//! Owns these two; whole days are emptied by `retire`.

use std::time::Duration;

use uuid::Uuid;

use super::{Outbox, OutboxError, days::Day, interval::interval};

/// How many of the oldest are looked at to learn which days they are of.
const LOOK: i64 = 10_000;

impl Outbox {
    /// Removes messages that have waited longer than `longest` for a person, in batches; says how many.
    pub(super) async fn remove_unresolved(&self, longest: Duration, batch: u32) -> Result<u64, OutboxError> {
        let days = sqlx::query_scalar!(
            r#"
            select distinct day_of(id) as "day!"
            from (
                select id
                from pending
                where failed_at < now() - $1::interval
                order by failed_at
                limit $2
            ) as oldest
            "#,
            interval(longest),
            LOOK
        )
        .fetch_all(&self.database)
        .await?;
        let mut removed = 0;
        for day in days {
            removed += self.remove_unresolved_of(Day::from(day), longest, i64::from(batch)).await?;
        }
        Ok(removed)
    }

    async fn remove_unresolved_of(&self, day: Day, longest: Duration, batch: i64) -> Result<u64, OutboxError> {
        let (from, to) = day.ids();
        let mut removed = 0;
        loop {
            let count = self
                .database
                .repeat(|| async {
                    sqlx::query_file_scalar!("src/outbox/remove.sql", from, to, interval(longest), batch)
                        .fetch_one(&self.database)
                        .await
                })
                .await?;
            removed += u64::try_from(count).unwrap_or(0);
            if count < batch {
                return Ok(removed);
            }
        }
    }

    /// Removes the keys of a day's messages that are gone, in batches. Each is looked at once.
    pub(super) async fn trim_keys(&self, day: Day, batch: u32) -> Result<(), OutboxError> {
        let (mut from, to) = day.ids();
        loop {
            let last = self
                .database
                .repeat(|| async {
                    sqlx::query_file_scalar!("src/outbox/trim.sql", from, to, i64::from(batch))
                        .fetch_optional(&self.database)
                        .await
                })
                .await?;
            match last {
                Some(last) => from = Uuid::from_u128(last.as_u128() + 1),
                None => return Ok(()),
            }
        }
    }
}
