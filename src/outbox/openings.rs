//! The express lane: what a dispatcher of this process could take at once.
//!
//! Owns the promise between the two: an opening that was taken is filled or given back. Whether there is one is the
//! dispatcher's to say, and what becomes of a message in it too.

use std::{sync::Arc, time::Duration};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::{Claimed, LaneId, Lease, NewMessage};
use crate::{delivery::ProviderName, message::Message};

/// Says which provider a message of a lane would be offered to first if it came now; `None` where it has to wait its
/// turn: others wait in the lane, or nobody could take it.
type Admits = dyn Fn(LaneId, &NewMessage) -> Option<ProviderName> + Send + Sync;

/// Where the API finds openings. Clones are the same.
#[derive(Clone)]
pub struct Openings {
    permits: Arc<Semaphore>,
    admits: Arc<Admits>,
    lease: Duration,
    deliveries: mpsc::UnboundedSender<Delivery>,
}

/// A message that was stored already claimed, with the permit to send it.
pub struct Delivery {
    /// The claim.
    pub claimed: Claimed,
    /// The message itself, so that its content need not be read.
    pub message: Arc<Message>,
    /// What bounds how many are sent at once.
    pub permit: OwnedSemaphorePermit,
}

/// The place of one message.
pub(super) struct Opening {
    /// Who is asked first.
    pub(super) provider: ProviderName,
    permit: OwnedSemaphorePermit,
    deliveries: mpsc::UnboundedSender<Delivery>,
}

impl Openings {
    /// Openings under these permits, where `admits` says so, and what is delivered through them. Leases last as long as
    /// those of other claims.
    pub fn new(
        permits: Arc<Semaphore>,
        lease: Duration,
        admits: impl Fn(LaneId, &NewMessage) -> Option<ProviderName> + Send + Sync + 'static,
    ) -> (Self, mpsc::UnboundedReceiver<Delivery>) {
        let (deliveries, delivered) = mpsc::unbounded_channel();
        (Self { permits, admits: Arc::new(admits), lease, deliveries }, delivered)
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Takes an opening for a message of that lane, if there is one.
    pub(super) fn take(&self, lane: LaneId, new: &NewMessage) -> Option<Opening> {
        let provider = (self.admits)(lane, new)?;
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        Some(Opening { provider, permit, deliveries: self.deliveries.clone() })
    }
}

impl Opening {
    /// Hands the message over. Gives the claim back if there is no dispatcher any more.
    pub(super) fn deliver(self, claimed: Claimed, message: Arc<Message>) -> Result<(), Lease> {
        let delivery = Delivery { claimed, message, permit: self.permit };
        self.deliveries.send(delivery).map_err(|unsent| unsent.0.claimed.lease)
    }
}
