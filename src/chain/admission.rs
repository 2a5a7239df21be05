//! Admission to one provider: yes with the permits of one call, or wait, with a reason and a time.
//!
//! Owns the order in which the permits are taken. It is done before the message is touched, and nothing of the message
//! but its sender domain matters to it.
//!
//! A provider that is not well is not waited for: the message goes on to the next. Our own limits are: that this
//! process has handed a provider as many messages as the settings allow says nothing against the provider, and mail
//! that turned to the next one for it would surprise whoever set the limit. The round waits, until its deadline.

use std::{
    future::{Future, pending},
    pin::pin,
    sync::Arc,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use super::{
    gate::{self, Gate},
    rate_limit::{self, RateLimit},
    room::Count,
};
use crate::{config, health::Reason};

/// A "not now".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Why.
    pub(super) reason: Reason,
    /// When to ask again.
    pub(super) until: Instant,
}

/// A "yes". Each layer round the adapter spends its own; what is dropped instead gives its place back and says nothing
/// of the provider.
pub(super) struct Permits {
    /// Spent by the breaker.
    pub(super) gate: gate::Permit,
    /// Spent by the rate limit.
    pub(super) rate: rate_limit::Permit,
    /// Spent by the concurrency limit.
    pub(super) slot: OwnedSemaphorePermit,
}

/// Admission to one provider.
pub(super) struct Admission {
    gate: Gate,
    rate: RateLimit,
    slots: Arc<Semaphore>,
    /// How many there are.
    size: usize,
    /// Calls that wait for one.
    waiting: Count,
}

impl Admission {
    /// Admission through that gate, under the limits of the settings.
    pub(super) fn new(gate: Gate, settings: &config::Provider) -> Self {
        let slots = settings.concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            gate,
            rate: RateLimit::new(settings.rate_per_second),
            slots: Arc::new(Semaphore::new(slots)),
            size: slots,
            waiting: Count::default(),
        }
    }

    /// How many calls there may be at once.
    pub(super) fn slots(&self) -> usize {
        self.size
    }

    /// How many calls there are, those that wait for their turn included.
    pub(super) fn load(&self) -> usize {
        self.size.saturating_sub(self.slots.available_permits()) + self.waiting.get()
    }

    /// The gate.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Admits a call for that sender domain. Waits for our own limits until the deadline, and for nothing else.
    ///
    /// The gate's permit is taken last, so that what it said is fresh however long the limits took; while they take
    /// long it is asked again at each of its changes.
    pub(super) async fn admit(&self, domain: &str, deadline: Instant) -> Result<Permits, Wait> {
        let waits = self.waiting.one();
        let slot = self.slots.clone().acquire_owned();
        let slot = async {
            match slot.await {
                Ok(slot) => slot,
                // The semaphore is never closed.
                Err(_) => pending().await,
            }
        };
        let slot = self.while_admitted(domain, deadline, Reason::ConcurrencyLimit, slot).await?;
        drop(waits);
        let rate = self.while_admitted(domain, deadline, Reason::RateLimit, self.rate.turn()).await?;
        let gate = self.gate.begin(domain)?;
        Ok(Permits { gate, rate, slot })
    }

    async fn while_admitted<T>(
        &self,
        domain: &str,
        deadline: Instant,
        limit: Reason,
        turn: impl Future<Output = T>,
    ) -> Result<T, Wait> {
        let mut changes = self.gate.changes();
        let mut turn = pin!(turn);
        loop {
            self.gate.admits(Some(domain))?;
            tokio::select! {
                biased;
                turn = &mut turn => return Ok(turn),
                // The gate outlives the borrow, so its sender is there.
                _ = changes.changed() => {}
                () = sleep_until(deadline) => return Err(Wait { reason: limit, until: Instant::now() }),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
