//! The loop that claims what is due: as much as there are permits for, when it is woken or by poll.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Dispatcher, outage::Outage, send::Sender};
use crate::{
    chain::Chain,
    outbox::{ClaimRequest, Claimed, OutboxError},
};

pub(super) struct Claims<'a> {
    pub(super) dispatcher: &'a Dispatcher,
    pub(super) sender: Sender,
    pub(super) outage: Outage,
    pub(super) permits: Arc<Semaphore>,
    pub(super) tasks: TaskTracker,
}

impl Claims<'_> {
    /// Claims until told to stop.
    pub(super) async fn run(&self, stop: &CancellationToken) {
        let mut pause = Pause::new(&self.dispatcher.settings);
        while !stop.is_cancelled() {
            let permits = tokio::select! {
                permits = self.take_permits() => permits,
                () = stop.cancelled() => return,
            };
            let wanted = permits.len();
            if !self.is_outage_over().await {
                drop(permits);
                pause.wait(&self.dispatcher.wake, stop).await;
                continue;
            }
            // A claim is not abandoned half way: what it took would lie until its lease ran out.
            match self.claim(wanted).await {
                Ok(claimed) if claimed.len() == wanted => {
                    self.spawn(claimed, permits);
                    pause.reset();
                    continue;
                }
                Ok(claimed) => {
                    if !claimed.is_empty() {
                        pause.reset();
                    }
                    self.spawn(claimed, permits);
                }
                Err(error) => {
                    self.outage.note(&error);
                    tracing::warn!(%error, "nothing could be claimed");
                }
            }
            pause.wait(&self.dispatcher.wake, stop).await;
        }
    }

    /// Whether the database is there, and nothing of our own is left behind from a time when it was not. Our own comes
    /// first: leases that ran out meanwhile are renewed and outcomes written, or this process would take its own
    /// messages over and send them again.
    async fn is_outage_over(&self) -> bool {
        if !self.outage.take() {
            return true;
        }
        let is_over = self.sender.leases.renew_all().await && self.sender.settler.has_written_all();
        if !is_over {
            self.outage.keep();
        }
        is_over
    }

    /// Waits for one permit, then takes as many more as are free, up to the size of a claim.
    async fn take_permits(&self) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::new();
        if let Ok(first) = self.permits.clone().acquire_owned().await {
            permits.push(first);
        }
        while permits.len() < self.dispatcher.settings.claim_size {
            let Ok(permit) = self.permits.clone().try_acquire_owned() else { break };
            permits.push(permit);
        }
        permits
    }

    async fn claim(&self, permits: usize) -> Result<Vec<Claimed>, OutboxError> {
        let Dispatcher { outbox, chains, settings, retry, .. } = self.dispatcher;
        let ready: BTreeMap<_, _> =
            chains.iter().filter_map(|(name, chain)| Some((name.clone(), chain.first_ready()?))).collect();
        let resting: Vec<String> = chains.keys().filter(|name| !ready.contains_key(*name)).cloned().collect();
        if !resting.is_empty() {
            outbox.sweep(&resting).await?;
        }
        if ready.is_empty() {
            return Ok(Vec::new());
        }
        outbox
            .claim(&ClaimRequest {
                chains: ready,
                limit: room(chains).map_or(permits, |room| room.min(permits)),
                lease: settings.lease,
                max_rounds: retry.max_rounds,
                idempotent: chains.values().flat_map(|chain| chain.idempotent()).collect(),
            })
            .await
    }

    /// Sends each of the messages in a task of its own, so that a slow one holds up no other.
    fn spawn(&self, claimed: Vec<Claimed>, permits: Vec<OwnedSemaphorePermit>) {
        if claimed.is_empty() {
            return;
        }
        let sender = self.sender.clone();
        self.tasks.spawn(async move { sender.send_all(claimed, permits).await });
    }
}

/// How many messages may be claimed where every provider that is ready is only being tried out: more would be claimed
/// for nothing. `None` where that is not bounded.
fn room(chains: &BTreeMap<String, Chain>) -> Option<usize> {
    let ready = chains.values().filter(|chain| chain.first_ready().is_some());
    ready.map(Chain::probe_room).sum()
}

/// How long to wait before the next look: short after work was found, growing to the longest.
struct Pause {
    shortest: Duration,
    longest: Duration,
    next: Duration,
}

impl Pause {
    fn new(settings: &crate::config::Dispatch) -> Self {
        Self { shortest: settings.poll_shortest, longest: settings.poll_longest, next: settings.poll_shortest }
    }

    fn reset(&mut self) {
        self.next = self.shortest;
    }

    /// Waits until it is over, or a message was accepted, or the process stops.
    async fn wait(&mut self, wake: &Notify, stop: &CancellationToken) {
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        tokio::select! {
            () = wake.notified() => self.reset(),
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}
