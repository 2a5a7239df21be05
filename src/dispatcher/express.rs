//! The express lane: messages that were stored for this dispatcher and come to it straight from memory.
//!
//! Owns when there is an opening: nothing waits, a provider is ready, and a permit is free. Sends like any other claim.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{Semaphore, mpsc::UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::send::Sender;
use crate::{
    chain::Chain,
    config,
    outbox::{Delivery, Openings},
};

/// A dispatcher's side of the express lane.
pub struct Express {
    pub(super) permits: Arc<Semaphore>,
    pub(super) backlog: Arc<Backlog>,
    delivered: UnboundedReceiver<Delivery>,
}

/// Whether others may wait to be claimed: what comes later must not overtake them.
#[derive(Debug)]
pub(super) struct Backlog(AtomicBool);

impl Backlog {
    pub(super) fn set(&self, waits: bool) {
        self.0.store(waits, Ordering::Relaxed);
    }

    fn waits(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Express {
    /// Both sides of the lane, open until `stop` is cancelled.
    pub fn new(
        settings: &config::Dispatch,
        chains: &BTreeMap<String, Chain>,
        stop: CancellationToken,
    ) -> (Openings, Self) {
        let permits = Arc::new(Semaphore::new(settings.concurrency));
        // Until the first claim has told otherwise, others may wait.
        let backlog = Arc::new(Backlog(AtomicBool::new(true)));
        let (is_on, chains) = (settings.express, chains.clone());
        let admits = {
            let backlog = backlog.clone();
            move |_lane: i32, new: &crate::outbox::NewMessage| {
                let is_open = is_on && !stop.is_cancelled() && !backlog.waits();
                chains.get(&new.chain).filter(|_| is_open)?.first_ready()
            }
        };
        let (openings, delivered) = Openings::new(permits.clone(), settings.lease, admits);
        (openings, Self { permits, backlog, delivered })
    }

    /// Sends what is delivered, until stopped; what is delivered by then is still taken, and given back.
    pub(super) async fn run(mut self, sender: Sender, stop: CancellationToken) {
        loop {
            let delivery = tokio::select! {
                delivery = self.delivered.recv() => delivery,
                () = stop.cancelled() => {
                    self.delivered.close();
                    self.delivered.recv().await
                }
            };
            let Some(delivery) = delivery else { return };
            let task = sender.clone();
            sender.tasks.spawn(async move {
                task.send(delivery.claimed, delivery.message).await;
                drop(delivery.permit);
            });
        }
    }
}
