//! Takes due messages from the outbox, offers each to its chain, and writes back what became of it.
//!
//! Owns leases, permits and the order of stopping. Decides nothing about a message (that is [`crate::delivery::next`])
//! nor about a provider (that is [`crate::chain`]), and holds nothing of Postgres while a provider is spoken to.

mod agenda;
mod claims;
mod contents;
mod express;
mod journal;
mod lanes;
mod leases;
mod outage;
mod places;
mod rooms;
mod send;
mod settler;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    chain::Chain,
    config,
    delivery::RetryPolicy,
    outbox::{Outbox, Wake},
};

pub use self::express::Express;
use self::{claims::Claims, leases::Leases, outage::Outage, send::Sender, settler::Settler};

/// How long the last outcomes may take to be written, at least: however short the drain is, they are what it is for.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// What a dispatcher works with.
pub struct Dispatcher {
    /// Where messages come from and outcomes go to.
    pub outbox: Outbox,
    /// The chains, by name.
    pub chains: BTreeMap<String, Chain>,
    /// How messages are claimed and sent.
    pub settings: config::Dispatch,
    /// How often and how long a message is tried.
    pub retry: RetryPolicy,
    /// Rung when a message was accepted, so that it need not wait for the next look.
    pub wake: Wake,
    /// Whether the last statement found the database there.
    pub database: watch::Sender<bool>,
}

impl Dispatcher {
    /// Works until `stop` is cancelled, or outcomes can no longer be written; then drains: claims nothing more, lets what
    /// is under way finish within the limit, and writes everything back. What was not begun by then is released, what was
    /// begun is of unknown outcome.
    pub async fn run(self, express: Express, stop: CancellationToken) {
        let outage = Outage::default();
        let leases = Leases::new(self.outbox.clone(), outage.clone(), self.settings.lease);
        let renewal = leases.clone().spawn_renewal(self.settings.lease_renewal);
        // Without the settler every outcome would be lost, and what was sent would be sent again.
        let unsettled = stop.child_token();
        let (outbox, wake) = (self.outbox.clone(), self.wake.clone());
        let settler = Settler::spawn(outbox, outage.clone(), wake, &self.settings, unsettled.clone());
        let tasks = TaskTracker::new();
        let abandon = CancellationToken::new();
        let places = express.places.clone();
        let sender = Sender {
            outbox: self.outbox.clone(),
            chains: Arc::new(self.chains.clone()),
            retry: Arc::new(self.retry.clone()),
            attempt_timeout: self.settings.attempt_timeout,
            leases: leases.clone(),
            settler: settler.handle(),
            places: places.clone(),
            contents: express.contents.clone(),
            claim_size: self.settings.claim_size,
            tasks: tasks.clone(),
            stop: unsettled.clone(),
            abandon: abandon.clone(),
        };
        let book = express.book.clone();
        let express = tokio::spawn(express.run(sender.clone(), unsettled.clone()));
        Claims::new(&self, sender, outage, places, book, tasks.clone()).run(&unsettled).await;

        if let Err(error) = express.await {
            tracing::error!(%error, "the express lane did not end well");
        }

        tasks.close();
        if tokio::time::timeout(self.settings.drain_limit, tasks.wait()).await.is_err() {
            tracing::warn!(sends = tasks.len(), "drain limit reached; sends under way are settled as outcome unknown");
            abandon.cancel();
        }
        // What is written goes on while the last sends hand in theirs: each handle ends with its send.
        if !settler.finish(self.settings.drain_limit.max(LAST_WRITES)).await {
            tracing::error!("the database stayed away while stopping; unwritten outcomes become takeovers");
        }
        renewal.abort();
    }
}
