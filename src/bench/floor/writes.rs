//! The least that writing something down costs: a commit of one record, records in batches, a bare insert in batches.
//!
//! Owns the clients; what they write is as long as the content of a mail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use crate::{
    bench::{BenchError, mail},
    outbox::Floor,
};

/// How many contents one statement of a batch writes.
pub(in crate::bench) const BATCH: u64 = 100;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Write {
    /// One record of the write-ahead log a commit.
    Record,
    /// Many records a commit.
    Records,
    /// Many rows of a bare table a commit.
    Rows,
}

impl Write {
    /// How many contents one commit writes.
    fn a_commit(self) -> u64 {
        if self == Write::Record { 1 } else { BATCH }
    }
}

/// Writes so many contents by so many clients at once, and gives the time that it takes.
pub(in crate::bench) async fn measure(
    floor: &Arc<Floor>,
    write: Write,
    clients: usize,
    contents: u64,
) -> Result<Duration, BenchError> {
    let content: Arc<[u8]> = mail::content(0).into();
    let next = Arc::new(AtomicU64::new(0));
    let mut writers: JoinSet<Result<(), BenchError>> = JoinSet::new();
    let began = Instant::now();
    for _ in 0..clients {
        let (floor, content, next) = (floor.clone(), content.clone(), next.clone());
        writers.spawn(async move {
            loop {
                let first = next.fetch_add(write.a_commit(), Ordering::Relaxed);
                let count = contents.saturating_sub(first).min(write.a_commit());
                if count == 0 {
                    return Ok(());
                }
                let batch: Vec<&[u8]> = (0..count).map(|_| &*content).collect();
                match write {
                    Write::Record | Write::Records => floor.log(&batch).await?,
                    Write::Rows => floor.insert_batch(&batch).await?,
                }
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.map_err(|error| BenchError::Call(error.to_string()))??;
    }
    Ok(began.elapsed())
}
