//! The outbox in numbers: how many messages stand where, and how long the oldest of them has been due.
//!
//! Owns two questions that cost the same however many messages there are; changes nothing.

use std::time::Duration;

use super::{Outbox, OutboxError, error::unreadable};
use crate::{delivery::Status, message::Priority};

impl Outbox {
    /// How many messages there are in each status, of all that are kept. Exact, and never a scan of them.
    pub async fn counts(&self) -> Result<Vec<(Status, u64)>, OutboxError> {
        let rows = sqlx::query!(
            r#"
            select status::text as "status!", sum(n)::bigint as "n!"
            from tally_sum()
            group by status
            "#
        )
        .fetch_all(&self.database)
        .await?;
        let count = |status: Status| {
            let row = rows.iter().find(|row| row.status == status.as_str());
            (status, row.map_or(0, |row| u64::try_from(row.n).unwrap_or(0)))
        };
        Ok(Status::ALL.into_iter().map(count).collect())
    }

    /// For each priority how long the oldest message has been due that waits for a machine, in a paused lane or not;
    /// zero if none is due. One look into the index for each lane.
    pub async fn oldest_due(&self) -> Result<Vec<(Priority, Duration)>, OutboxError> {
        let rows = sqlx::query!(
            r#"
            select
                lane.priority::text as "priority!",
                extract(epoch from now() - min(oldest.due_at))::double precision as "age_seconds!"
            from lane
            cross join lateral (
                select due_at
                from pending
                where pending.lane = lane.id
                    and pending.due_at <= now()
                order by pending.due_at
                limit 1
            ) as oldest
            group by lane.priority
            "#
        )
        .fetch_all(&self.database)
        .await?;
        let age = |priority: Priority| {
            let row = rows.iter().find(|row| row.priority == priority.as_str());
            let age = row.map_or(Ok(Duration::ZERO), |row| Duration::try_from_secs_f64(row.age_seconds));
            Ok((priority, age.map_err(unreadable)?))
        };
        Priority::ALL.into_iter().map(age).collect()
    }
}
