//! Leases: the right of one dispatcher to one message until a time.
//!
//! Owns their renewal and their return; they are given out by a claim and end with a settle.

use std::{collections::HashMap, time::Duration};

use uuid::Uuid;

use super::{Holding, Lease, Outbox, OutboxError, interval::interval};

impl Outbox {
    /// Lets leases last that long from now, and says of each, in their order, whether it holds. One statement.
    pub async fn renew(&self, leases: &[Lease], length: Duration) -> Result<Vec<(Lease, Holding)>, OutboxError> {
        let (ids, tokens) = columns(leases);
        let rows = self
            .hot
            .repeat(|| async {
                sqlx::query_file!("src/outbox/renew.sql", &ids, &tokens, interval(length)).fetch_all(&self.hot).await
            })
            .await?;
        let held: HashMap<(Uuid, i64), bool> =
            rows.into_iter().map(|row| ((row.id, row.token), row.cancel_requested)).collect();
        let holding = |lease: &Lease| match held.get(&(lease.id.as_uuid(), lease.token)) {
            Some(&cancel_requested) => (*lease, Holding::Held { cancel_requested }),
            None => (*lease, Holding::Lost),
        };
        Ok(leases.iter().map(holding).collect())
    }

    /// Gives back messages whose sending the holder has not begun: they are due at once, as they were before the
    /// claim, and no round is spent. Says how many it gave back; for the others the lease was lost. One statement.
    pub async fn release(&self, leases: &[Lease]) -> Result<u64, OutboxError> {
        self.postpone(leases, Duration::ZERO).await
    }

    /// Gives back like [`release`](Self::release), but the messages are due only after a pause, or when they have to end
    /// if that is earlier: for what this process cannot send and another may.
    pub async fn postpone(&self, leases: &[Lease], pause: Duration) -> Result<u64, OutboxError> {
        let (ids, tokens) = columns(leases);
        let released = self
            .database
            .repeat(|| async {
                sqlx::query_file_scalar!("src/outbox/release.sql", &ids, &tokens, interval(pause))
                    .fetch_one(&self.database)
                    .await
            })
            .await?;
        Ok(u64::try_from(released).unwrap_or(0))
    }
}

fn columns(leases: &[Lease]) -> (Vec<Uuid>, Vec<i64>) {
    leases.iter().map(|lease| (lease.id.as_uuid(), lease.token)).unzip()
}
