//! Writes settlements back in batches, and keeps them while the database is away.
//!
//! Owns what is not written yet; decides nothing about it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use time::OffsetDateTime;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::outage::Outage;
use crate::{
    config,
    delivery::Next,
    outbox::{LaneId, Lease, Outbox, OutboxError, Settled, Settlement, Wake},
};

/// What a send hands in.
enum WriteBack {
    Settle(Box<Settlement>, LaneId),
    Release(Lease, LaneId),
}

/// The task that writes back.
pub(super) struct Settler {
    handle: SettlerHandle,
    task: JoinHandle<()>,
}

/// Where sends hand in what is to be written back.
#[derive(Clone)]
pub(super) struct SettlerHandle {
    sender: mpsc::Sender<WriteBack>,
    /// How much was handed in and is not written.
    unwritten: Arc<AtomicUsize>,
}

impl SettlerHandle {
    /// Writes it back, of a message of that lane.
    pub(super) async fn settle(&self, settlement: Settlement, lane: LaneId) {
        self.hand_in(WriteBack::Settle(Box::new(settlement), lane)).await;
    }

    /// Gives a message back to its lane.
    pub(super) async fn release(&self, lease: Lease, lane: LaneId) {
        self.hand_in(WriteBack::Release(lease, lane)).await;
    }

    /// Whether nothing is left to be written.
    pub(super) fn has_written_all(&self) -> bool {
        self.unwritten.load(Ordering::SeqCst) == 0
    }

    async fn hand_in(&self, write_back: WriteBack) {
        self.unwritten.fetch_add(1, Ordering::SeqCst);
        if self.sender.send(write_back).await.is_err() {
            tracing::error!("an outcome came after the last settle; its lease will run out");
        }
    }
}

impl Settler {
    /// Starts it. `ended` is cancelled when it has ended, however it did.
    pub(super) fn spawn(
        outbox: Outbox,
        outage: Outage,
        wake: Wake,
        settings: &config::Dispatch,
        ended: CancellationToken,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(settings.settle_size);
        let unwritten = Arc::<AtomicUsize>::default();
        let (size, delay) = (settings.settle_size, settings.settle_delay);
        let worker = Worker { outbox, outage, wake, receiver, unwritten: unwritten.clone(), size, delay };
        Self { handle: SettlerHandle { sender, unwritten }, task: tokio::spawn(worker.run(ended.drop_guard())) }
    }

    pub(super) fn handle(&self) -> SettlerHandle {
        self.handle.clone()
    }

    /// Waits until everything handed in is written, at most that long. Whether it was. Every other handle must be gone
    /// by then; what is handed in later is lost.
    pub(super) async fn finish(self, longest: Duration) -> bool {
        drop(self.handle);
        let mut task = self.task;
        match tokio::time::timeout(longest, &mut task).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(%error, "the settler did not end well");
                false
            }
            Err(_) => {
                task.abort();
                false
            }
        }
    }
}

struct Worker {
    outbox: Outbox,
    outage: Outage,
    wake: Wake,
    receiver: mpsc::Receiver<WriteBack>,
    unwritten: Arc<AtomicUsize>,
    size: usize,
    delay: Duration,
}

impl Worker {
    async fn run(mut self, _ended: DropGuard) {
        while let Some(first) = self.receiver.recv().await {
            let mut settlements = Vec::new();
            let mut releases = Vec::new();
            let mut again = Vec::new();
            let mut sort = |write_back| match write_back {
                WriteBack::Settle(settlement, lane) => {
                    if let Next::Again { due_at, .. } = &settlement.next {
                        again.push((lane, *due_at));
                    }
                    settlements.push(*settlement);
                }
                WriteBack::Release(lease, lane) => {
                    again.push((lane, OffsetDateTime::UNIX_EPOCH));
                    releases.push(lease);
                }
            };
            sort(first);
            let deadline = tokio::time::Instant::now() + self.delay;
            for _ in 1..self.size {
                match tokio::time::timeout_at(deadline, self.receiver.recv()).await {
                    Ok(Some(more)) => sort(more),
                    Ok(None) | Err(_) => break,
                }
            }
            let count = settlements.len() + releases.len();
            self.write(settlements).await;
            self.release(releases).await;
            self.unwritten.fetch_sub(count, Ordering::SeqCst);
            for (lane, due_at) in again {
                self.wake.expect(lane, due_at);
            }
        }
    }

    /// Writes a batch, however long the database is away. A batch that is refused is halved until the settlement that
    /// cannot be written stands alone; the others must not suffer for it.
    async fn write(&self, settlements: Vec<Settlement>) {
        let mut batches = vec![settlements];
        while let Some(mut batch) = batches.pop() {
            if batch.is_empty() {
                continue;
            }
            match self.persistently("settle", || self.outbox.settle(&batch)).await {
                Ok(settled) => {
                    for (settlement, settled) in batch.iter().zip(settled) {
                        report(settlement, settled);
                    }
                }
                Err(error) if batch.len() == 1 => {
                    let message_id = batch[0].lease.id;
                    tracing::error!(%message_id, %error, "an outcome cannot be written; its lease will run out");
                }
                Err(_) => {
                    let half = batch.split_off(batch.len() / 2);
                    batches.extend([half, batch]);
                }
            }
        }
    }

    async fn release(&self, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        if let Err(error) = self.persistently("release", || self.outbox.release(&leases)).await {
            tracing::error!(%error, messages = leases.len(), "messages cannot be released; their leases will run out");
        }
    }

    /// Makes a call until the database is there to answer it.
    async fn persistently<T, F>(&self, what: &'static str, call: impl Fn() -> F) -> Result<T, OutboxError>
    where
        F: Future<Output = Result<T, OutboxError>>,
    {
        let mut pause = Duration::from_millis(50);
        loop {
            let answer = call().await;
            // Also where a person has to let us in again: what was sent has been sent.
            let Err(error @ (OutboxError::Unavailable(_) | OutboxError::NotSetUp(_))) = answer else { return answer };
            self.outage.note(&error);
            tracing::warn!(what, %error, "outcomes are kept until the database is back");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }
}

fn report(settlement: &Settlement, settled: Settled) {
    let message_id = settlement.lease.id;
    match settled {
        Settled::Done => tracing::debug!(%message_id, "settled"),
        Settled::Late => tracing::warn!(%message_id, "a late outcome was added to the history"),
        Settled::Gone => tracing::warn!(%message_id, "an outcome came for a message that is no longer kept"),
    }
}
