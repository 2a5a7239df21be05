//! The loop that claims what is due: as much as there are permits for, when it is woken or by poll.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Dispatcher, express::Backlog, outage::Outage, send::Sender};
use crate::{
    chain::Chain,
    outbox::{ClaimRequest, Claimed, OutboxError},
};

pub(super) struct Claims<'a> {
    pub(super) dispatcher: &'a Dispatcher,
    pub(super) sender: Sender,
    pub(super) outage: Outage,
    pub(super) permits: Arc<Semaphore>,
    pub(super) backlog: Arc<Backlog>,
    pub(super) tasks: TaskTracker,
    /// After an outage, until when others may renew their leases before they are taken over.
    pub(super) others_until: Option<Instant>,
}

impl Claims<'_> {
    /// Claims until told to stop.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        let mut pause = Pause::new(&self.dispatcher.settings);
        while !stop.is_cancelled() {
            let permits = tokio::select! {
                permits = self.take_permits() => permits,
                () = stop.cancelled() => return,
            };
            let wanted = permits.len();
            // A claim is not abandoned half way: what it took would lie until its lease ran out.
            let claimed = self.claim(wanted).await;
            self.report(&claimed);
            self.backlog.set(claimed.as_ref().map_or(true, |claimed| claimed.len() == wanted));
            match claimed {
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
                Err(error) => self.outage.note(&error),
            }
            pause.wait(&self.dispatcher.wake, stop).await;
        }
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

    async fn claim(&mut self, permits: usize) -> Result<Vec<Claimed>, OutboxError> {
        self.see_to_our_own().await?;
        let takes_over = self.others_until.is_none_or(|until| until <= Instant::now());
        let Dispatcher { outbox, chains, settings, retry, .. } = self.dispatcher;
        let ready: BTreeMap<_, _> =
            chains.iter().filter_map(|(name, chain)| Some((name.clone(), chain.first_ready()?))).collect();
        let resting: Vec<String> = chains.keys().filter(|name| !ready.contains_key(*name)).cloned().collect();
        if !resting.is_empty() && takes_over {
            outbox.sweep(&resting).await?;
        }
        if ready.is_empty() {
            return Ok(Vec::new());
        }
        // Where every ready provider is only being tried out, more than it takes would be claimed for nothing.
        let room = chains.values().filter(|chain| ready.contains_key(chain.name())).map(Chain::probe_room);
        let room = room.sum::<Option<usize>>().unwrap_or(usize::MAX);
        outbox
            .claim(&ClaimRequest {
                chains: ready,
                limit: permits.min(room),
                lease: settings.lease,
                max_rounds: retry.max_rounds,
                idempotent: chains.values().flat_map(|chain| chain.idempotent()).collect(),
                takes_over,
            })
            .await
    }

    /// After an outage our own comes first: leases that ran out meanwhile are renewed and outcomes written, or this
    /// process would take its own messages over and send them again. Others get the time of a lease to do the same.
    async fn see_to_our_own(&mut self) -> Result<(), OutboxError> {
        if !self.outage.take() {
            // Renewals can be late without an outage: the database is slow, or all connections are taken.
            return if self.sender.leases.has_any_run_out() { self.sender.leases.renew_all().await } else { Ok(()) };
        }
        self.others_until = Some(Instant::now() + self.dispatcher.settings.lease);
        self.sender.leases.renew_all().await?;
        if self.sender.settler.has_written_all() {
            return Ok(());
        }
        Err(OutboxError::Unavailable("outcomes of before are not written yet".into()))
    }

    /// Tells once when the database goes, and once when it is back.
    fn report(&self, claimed: &Result<Vec<Claimed>, OutboxError>) {
        let is_there = claimed.is_ok();
        if !self.dispatcher.database.send_if_modified(|was| std::mem::replace(was, is_there) != is_there) {
            return;
        }
        match claimed {
            Ok(_) => tracing::info!("the database is back"),
            Err(error) => {
                tracing::error!(%error, "nothing can be claimed; it is tried again until the database is back")
            }
        }
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
