//! Messages of a chain that nobody has any more: they go on in the default chain.
//!
//! Owns the move, a batch at a time. Which chains there are is said by the processes themselves.

use super::{
    LaneId, Outbox, OutboxError, error::read_priority, interval::interval, lanes::find_or_make,
    presence::CHAINS_LIVE_FOR,
};
use crate::{
    config::DEFAULT_CHAIN,
    message::{ClientId, Priority},
};

/// How many messages one statement moves at most.
const BATCH: i64 = 1000;

impl Outbox {
    /// Moves what waits in lanes of chains that no process that sends has in its settings into the lanes of the default
    /// chain, of the same priority and client. Does nothing as long as nobody sends for the default chain. Says how many
    /// messages it moved.
    ///
    /// One statement where there is nothing to move. What somebody holds is left to him until his lease has run out.
    pub async fn adopt_lanes(&self) -> Result<u64, OutboxError> {
        let mut moved = 0;
        for (orphan, priority, client) in self.orphans().await? {
            let default = (DEFAULT_CHAIN.to_owned(), priority, client);
            let made = find_or_make(&self.database, &[&default].into()).await?;
            let Some((_, default)) = made.into_iter().next() else { continue };
            moved += self.move_lane(orphan, default).await?;
        }
        Ok(moved)
    }

    /// The lanes in which something waits that nobody will send.
    async fn orphans(&self) -> Result<Vec<(LaneId, Priority, ClientId)>, OutboxError> {
        let statement = || async {
            sqlx::query_file!("src/outbox/orphans.sql", DEFAULT_CHAIN, interval(CHAINS_LIVE_FOR))
                .fetch_all(&self.database)
                .await
        };
        let rows = self.database.repeat(statement).await?;
        rows.into_iter()
            .map(|row| {
                let priority = read_priority(&row.priority)?;
                Ok((LaneId::new(row.id), priority, ClientId::new(&row.client)))
            })
            .collect()
    }

    async fn move_lane(&self, from: LaneId, to: LaneId) -> Result<u64, OutboxError> {
        let mut all = 0;
        loop {
            let statement = || async {
                sqlx::query_file!("src/outbox/adopt.sql", from.as_i32(), to.as_i32(), BATCH)
                    .execute(&self.database)
                    .await
            };
            let moved = self.database.repeat(statement).await?.rows_affected();
            all += moved;
            if moved < BATCH.unsigned_abs() {
                return Ok(all);
            }
        }
    }
}
