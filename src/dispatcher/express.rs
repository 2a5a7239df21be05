//! The express lane: messages that were stored for this dispatcher and come to it straight from memory.
//!
//! Owns when there is an opening: nothing has waited in the lane for long, a provider has a place, and so has the process.
//! Sends like any other claim.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::{
    contents::{ContentBudget, ContentShare},
    lanes::{LaneBook, SharedBook},
    places::{Place, Places},
    send::Sender,
};
use crate::{
    chain::{Chain, Counted, Readiness},
    config,
    message::Message,
    outbox::{Claimed, LaneId, NewMessage, Opening, Openings, Wake},
};

/// By how much a message may overtake others of its lane. What was told of more recently is being claimed: were the lane
/// closed for it, the next would be told of too, and at a steady load it would never open again.
const OVERTAKES_AT_MOST: Duration = Duration::from_millis(50);

/// A dispatcher's side of the express lane.
pub struct Express {
    pub(super) places: Places,
    pub(super) contents: ContentBudget,
    pub(super) book: SharedBook,
    delivered: UnboundedReceiver<Delivery>,
}

/// What a message holds that was let in.
struct Ticket {
    place: Place,
    expected: Option<Counted>,
    share: ContentShare,
}

/// A message that was stored already claimed.
struct Delivery {
    claimed: Claimed,
    message: Arc<Message>,
    ticket: Ticket,
}

/// Who is let in.
struct Gatekeeper {
    is_on: bool,
    stop: CancellationToken,
    chains: BTreeMap<String, Chain>,
    places: Places,
    contents: ContentBudget,
    book: SharedBook,
    wake: Wake,
    deliveries: UnboundedSender<Delivery>,
}

impl Gatekeeper {
    fn admit(&self, lane: LaneId, new: &NewMessage) -> Option<Opening> {
        if !self.is_on || self.stop.is_cancelled() {
            return None;
        }
        if self.wake.untaken_since().is_some_and(|since| since.elapsed() >= OVERTAKES_AT_MOST) {
            return None;
        }
        let chain = self.chains.get(&new.chain)?;
        // While a provider is tried out it is the claim that chooses with what.
        let Readiness::Ready { provider, places: 1.., trials: 0, .. } = chain.readiness() else { return None };
        let provider = chain.first_for(new.message.id).unwrap_or(provider);
        if !self.book.lock().lets_in(lane, new.send_at, OVERTAKES_AT_MOST) {
            return None;
        }
        let share = self.contents.try_take(new.message.email.content_bytes())?;
        let place = self.places.occupy(self.places.take(1).pop()?);
        let ticket = Ticket { place, expected: chain.expect(&provider, new.message.priority), share };
        let deliveries = self.deliveries.clone();
        Some(Opening::new(provider, move |claimed, message| {
            let delivery = Delivery { claimed, message, ticket };
            deliveries.send(delivery).map_err(|unsent| unsent.0.claimed.lease)
        }))
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
        let (deliveries, delivered) = unbounded_channel();
        let gatekeeper = Gatekeeper {
            is_on: settings.express,
            stop,
            chains: chains.clone(),
            places: places.clone(),
            contents: contents.clone(),
            book: book.clone(),
            wake: wake.clone(),
            deliveries,
        };
        let openings = Openings::new(settings.lease, move |lane, new| gatekeeper.admit(lane, new));
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
            let Some(Delivery { claimed, message, ticket }) = delivery else { return };
            let Ticket { place, expected, share } = ticket;
            let job = sender.job_expected(claimed, place, expected);
            let task = sender.clone();
            sender.tasks.spawn(async move {
                task.send(job, message).await;
                drop(share);
            });
        }
    }
}
