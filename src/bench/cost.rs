//! What a message costs the database, beside time.
//!
//! Owns the division; the counters are the database's, of the whole server, so nothing else may be at work on it.

use super::{BenchError, Figure, Unit};
use crate::outbox::{Outbox, Written};

/// What had been written when counting began.
pub(super) struct Cost {
    before: Written,
}

impl Cost {
    /// Begins to count.
    pub(super) async fn begin(outbox: &Outbox) -> Result<Self, BenchError> {
        Ok(Self { before: outbox.written().await? })
    }

    /// What was written for each of so many messages.
    pub(super) async fn of_each(self, outbox: &Outbox, messages: u64) -> Result<[Figure; 2], BenchError> {
        let now = outbox.written().await?;
        let each = |now: u64, before: u64| share(now.saturating_sub(before), messages);
        Ok([
            Figure::new("wal_a_message", each(now.wal_bytes, self.before.wal_bytes), Unit::Bytes),
            Figure::new("commits_a_message", each(now.transactions, self.before.transactions), Unit::Count),
        ])
    }
}

/// The dead rows that a thousand messages left, once the sessions that sent them have ended.
pub(super) async fn dead_rows(outbox: &Outbox, messages: u64) -> Result<Figure, BenchError> {
    let dead = outbox.dead_rows(messages).await?;
    Ok(Figure::new("dead_rows_a_thousand", share(dead * 1000, messages), Unit::Count))
}

#[allow(clippy::cast_precision_loss)]
fn share(count: u64, messages: u64) -> f64 {
    count as f64 / messages.max(1) as f64
}
