//! Admission to one provider: yes with the permits of one call, or wait, with a reason and a time.
//!
//! Owns the order in which the permits are taken, and how many calls are on their way. It is done before the message is
//! touched, and nothing of the message but what an [`Applicant`] tells matters to it.
//!
//! A provider that is not well is not waited for: the message goes on to the next. Our own limits are, for as long as the
//! caller says: that we have handed a provider as many messages as the settings allow says nothing against it, and mail
//! that turned to the next one for it would surprise whoever set the limit, unless the settings say so.

use std::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use super::{
    gate::{self, Gate},
    rate_limit::{self, RateLimit},
    room::{Count, Expected},
    slots::{Slot, Slots},
};
use crate::{
    config,
    health::{Reason, Share},
    message::{Message, Priority},
};

/// For how long a provider is given work, where its rate is limited: what is more could be sent by another process.
const AHEAD: Duration = Duration::from_secs(2);

/// What matters of a message to admission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applicant<'a> {
    /// The sender domain; `None`: one that is set up.
    pub(super) domain: Option<&'a str>,
    /// Its priority.
    pub(super) priority: Priority,
    /// Whether the provider was asked before, and is to be asked again before any other: it deferred the message or may
    /// have it.
    pub(super) is_back: bool,
}

impl<'a> Applicant<'a> {
    /// That message, as if it came for the first time.
    pub(super) fn of(message: &'a Message) -> Self {
        Self { domain: Some(message.email.from.address.domain()), priority: message.priority, is_back: false }
    }
}

impl Applicant<'static> {
    /// A message that comes for the first time, of a sender domain that is set up.
    pub(super) const NEW: Self = Self { domain: None, priority: Priority::Normal, is_back: false };
}

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
    pub(super) slot: Slot,
}

/// Admission to one provider.
pub(super) struct Admission {
    gate: Gate,
    rate: RateLimit,
    slots: Slots,
    /// The limits of the account, for all processes.
    concurrency: usize,
    per_second: Option<u32>,
    /// How many places of the account are this process's.
    places: AtomicUsize,
    /// Messages that were claimed for it and not offered yet.
    expected: Expected,
    /// Calls that wait for a slot.
    waiting: Count,
}

impl Admission {
    /// Admission through that gate, under the limits of the settings.
    pub(super) fn new(gate: Gate, settings: &config::Provider) -> Self {
        let concurrency = settings.concurrency.max(1);
        Self {
            gate,
            rate: RateLimit::new(settings.rate_per_second),
            slots: Slots::new(concurrency),
            concurrency,
            per_second: settings.rate_per_second,
            places: AtomicUsize::new(concurrency),
            expected: Expected::default(),
            waiting: Count::default(),
        }
    }

    /// Keeps from now on to that share of the account's limits. Where that is no place nothing is claimed for it any more,
    /// and what has come nonetheless passes by one at a time.
    pub(super) fn keep_to(&self, share: Share) {
        let places = share.places(self.concurrency);
        self.places.store(places, Ordering::Relaxed);
        self.slots.resize(places);
        if let Some(rate) = self.per_second {
            self.rate.change(share.rate(f64::from(rate), self.concurrency));
        }
    }

    /// How many messages it has work for: twice as many as there may be at once, and no more than its rate allows for a
    /// while.
    pub(super) fn most(&self) -> usize {
        let twice = self.places.load(Ordering::Relaxed) * 2;
        self.rate.in_time(AHEAD).map_or(twice, |calls| twice.min(calls.max(1)))
    }

    /// Whether this process has a place at it at all: where there are fewer places than processes, some have none.
    pub(super) fn has_places(&self) -> bool {
        self.places.load(Ordering::Relaxed) > 0
    }

    /// How many messages it has: it is asked for them, they wait for their turn, or they are about to come.
    pub(super) fn load(&self) -> usize {
        self.slots.taken() + self.waiting.get() + self.expected.all()
    }

    /// Messages that are about to come.
    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }

    /// The gate.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Admits a call. Waits for our own limits until the deadline, and for nothing else.
    ///
    /// The gate's permit is taken last, so that what it said is fresh however long the limits took; while they take
    /// long it is asked again at each of its changes.
    pub(super) async fn admit(&self, applicant: Applicant<'_>, deadline: Instant) -> Result<Permits, Wait> {
        let waits = self.waiting.one();
        let slot = self.while_admitted(applicant, deadline, Reason::ConcurrencyLimit, self.slots.take()).await?;
        drop(waits);
        let rate = self.while_admitted(applicant, deadline, Reason::RateLimit, self.rate.turn()).await?;
        let gate = self.gate.begin(applicant, self.expected.below(applicant.priority))?;
        Ok(Permits { gate, rate, slot })
    }

    async fn while_admitted<T>(
        &self,
        applicant: Applicant<'_>,
        deadline: Instant,
        limit: Reason,
        turn: impl Future<Output = T>,
    ) -> Result<T, Wait> {
        let mut changes = self.gate.changes();
        let mut turn = pin!(turn);
        loop {
            self.gate.admits(applicant)?;
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
