//! The express lane: what a dispatcher of this process could take at once.
//!
//! Owns the promise between the two: an opening that was taken is filled or given back. Whether there is one is the
//! dispatcher's to say, and what becomes of a message in it too.

use std::{sync::Arc, time::Duration};

use super::{Claimed, LaneId, Lease, NewMessage};
use crate::{delivery::ProviderName, message::Message};

/// Gives the opening for a message of a lane if it came now; `None` where it has to wait its turn: others wait in the
/// lane, or nobody could take it.
type Admits = dyn Fn(LaneId, &NewMessage) -> Option<Opening> + Send + Sync;

/// Takes a message that was stored already claimed; gives its lease back if there is nobody to take it.
type Deliver = dyn FnOnce(Claimed, Arc<Message>) -> Result<(), Lease> + Send + Sync;

/// Where the API finds openings. Clones are the same.
#[derive(Clone)]
pub struct Openings {
    admits: Arc<Admits>,
    lease: Duration,
}

/// The place of one message. Dropped, it is given back.
pub struct Opening {
    /// Who is asked first.
    pub(super) provider: ProviderName,
    deliver: Box<Deliver>,
}

impl Openings {
    /// Openings where `admits` says so. Leases last as long as those of other claims.
    pub fn new(
        lease: Duration,
        admits: impl Fn(LaneId, &NewMessage) -> Option<Opening> + Send + Sync + 'static,
    ) -> Self {
        Self { admits: Arc::new(admits), lease }
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Takes an opening for a message of that lane, if there is one.
    pub(super) fn take(&self, lane: LaneId, new: &NewMessage) -> Option<Opening> {
        (self.admits)(lane, new)
    }
}

impl Opening {
    /// A place at that provider. `deliver` holds it until it has the message.
    pub fn new(
        provider: ProviderName,
        deliver: impl FnOnce(Claimed, Arc<Message>) -> Result<(), Lease> + Send + Sync + 'static,
    ) -> Self {
        Self { provider, deliver: Box::new(deliver) }
    }

    /// Hands the message over. Gives the claim back if there is no dispatcher any more.
    pub(super) fn deliver(self, claimed: Claimed, message: Arc<Message>) -> Result<(), Lease> {
        (self.deliver)(claimed, message)
    }
}
