//! The express lane: messages that were stored for this dispatcher and come to it straight from memory.
//!
//! Owns when there is an opening: nothing waits in the lane, a provider has a place, and so has the process. Sends like
//! any other claim.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::{
    contents::ContentBudget,
    lanes::{LaneBook, SharedBook},
    places::Places,
    send::Sender,
};
use crate::{
    chain::{Chain, Readiness},
    config,
    delivery::ProviderName,
    message::mime,
    outbox::{Delivery, LaneId, NewMessage, Openings, Wake},
};

/// A dispatcher's side of the express lane.
pub struct Express {
    pub(super) places: Places,
    pub(super) contents: ContentBudget,
    pub(super) book: SharedBook,
    delivered: UnboundedReceiver<Delivery>,
}

/// Who is let in.
struct Gatekeeper {
    is_on: bool,
    stop: CancellationToken,
    chains: BTreeMap<String, Chain>,
    contents: ContentBudget,
    book: SharedBook,
    wake: Wake,
}

impl Gatekeeper {
    fn admit(&self, lane: LaneId, new: &NewMessage) -> Option<ProviderName> {
        if !self.is_on || self.stop.is_cancelled() || self.wake.is_told_of(lane) {
            return None;
        }
        let chain = self.chains.get(&new.chain)?;
        let Readiness::Ready { provider, places: 1.., .. } = chain.readiness() else { return None };
        let may_pass = self.book.lock().is_empty(lane, new.send_at)
            && self.contents.has_room_for(mime::encoded_size_estimate(&new.message.email));
        may_pass.then_some(provider)
    }
}

impl Express {
    /// Both sides of the lane, open until `stop` is cancelled.
    pub fn new(
        settings: &config::Dispatch,
        chains: &BTreeMap<String, Chain>,
        wake: &Wake,
        stop: CancellationToken,
    ) -> (Openings, Self) {
        let places = Places::new(settings.concurrency);
        let contents = ContentBudget::new(settings.content_bytes as u64);
        // As long as a lane is not known, others may wait in it.
        let book = SharedBook::new(LaneBook::default());
        let gatekeeper = Gatekeeper {
            is_on: settings.express,
            stop,
            chains: chains.clone(),
            contents: contents.clone(),
            book: book.clone(),
            wake: wake.clone(),
        };
        let admits = move |lane, new: &NewMessage| gatekeeper.admit(lane, new);
        let (openings, delivered) = Openings::new(places.permits(), settings.lease, admits);
        (openings, Self { places, contents, book, delivered })
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
            let Some(Delivery { claimed, message, permit }) = delivery else { return };
            let job = sender.job(claimed, self.places.occupy(permit.into()));
            let task = sender.clone();
            sender.tasks.spawn(async move { task.send_from_memory(job, message).await });
        }
    }
}
