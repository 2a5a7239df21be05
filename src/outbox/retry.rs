//! Retry: messages that wait for a person are tried again, as if for the first time.
//!
//! Owns what that means for their rows. Who may be asked for it is the API's.

use std::time::Duration;

use uuid::Uuid;

use super::{LaneId, Outbox, OutboxError, interval::interval};
use crate::message::MessageId;

/// How messages are tried again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Also those of unknown outcome, which may then arrive twice.
    pub include_outcome_unknown: bool,
    /// How long they may wait in all, counted from now.
    pub longest_wait: Duration,
    /// They are counted, and stay as they are.
    pub dry_run: bool,
}

impl Outbox {
    /// Gives those of these messages that wait for a person a new count of rounds, and says how many of each lane there
    /// were. One statement. Where its answer was lost it is made again, and counts only what was left.
    pub async fn retry(&self, ids: &[MessageId], retry: Retry) -> Result<Vec<(LaneId, u64)>, OutboxError> {
        let uuids: Vec<Uuid> = ids.iter().map(|id| id.as_uuid()).collect();
        let Retry { include_outcome_unknown, longest_wait, dry_run } = retry;
        let statement = || async {
            let longest_wait = interval(longest_wait);
            sqlx::query_file!("src/outbox/retry.sql", &uuids, include_outcome_unknown, longest_wait, dry_run)
                .fetch_all(&self.database)
                .await
        };
        let rows = self.database.repeat(statement).await?;
        Ok(rows.into_iter().map(|row| (LaneId::new(row.lane), u64::try_from(row.count).unwrap_or(0))).collect())
    }
}
