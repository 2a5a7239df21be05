//! How many messages a chain takes now.
//!
//! Owns the bound on what is claimed for it; what is admitted is its providers' admission to say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::time::Instant;

use super::{Chain, link::Link};
use crate::delivery::ProviderName;

/// Whether a chain takes messages, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready {
        /// The provider that is asked first.
        provider: ProviderName,
        /// How many more messages than it has.
        places: usize,
        /// How many it takes when it has none.
        most: usize,
    },
    /// Messages would only wait; at that time it is worth asking again.
    RestsUntil(Instant),
}

/// A number of messages on their way to somebody. Clones count together.
#[derive(Clone, Default)]
pub(super) struct Count(Arc<AtomicUsize>);

/// One of them, for as long as it is kept.
pub struct Counted(Count);

impl Count {
    pub(super) fn one(&self) -> Counted {
        self.0.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Chain {
    /// Whether it takes messages now. What ends by itself with time has ended here too, without anybody asking.
    ///
    /// Its first ready provider takes twice as many as it is asked at once: one round waits while the other is sent, so
    /// that it is never idle for want of a claim. A provider that is only being tried out takes its probes, and what is
    /// more goes to the next. Whoever claims more than that has claimed them for nothing.
    pub fn readiness(&self) -> Readiness {
        let mut ready = self.links.iter().filter(|link| link.is_ready()).peekable();
        let Some(first) = ready.peek() else {
            let again = self.links.iter().filter_map(|link| link.rests_until()).min();
            return Readiness::RestsUntil(again.unwrap_or_else(Instant::now));
        };
        let provider = first.name().clone();
        let (mut places, mut most) = (0, 0);
        for link in ready {
            let probes = link.probe_room();
            places += probes.unwrap_or_else(|| link.most().saturating_sub(link.load()));
            most += probes.unwrap_or_else(|| link.most());
            if probes.is_none() {
                break;
            }
        }
        Readiness::Ready { provider, places, most }
    }

    /// Counts a message that was claimed for a provider, until what this gives is dropped: as soon as it is offered, it
    /// is counted there.
    pub fn expect(&self, provider: &ProviderName) -> Option<Counted> {
        let link = self.links.iter().find(|link| link.name() == provider)?;
        Some(link.expected().one())
    }
}

impl Link {
    /// How many messages are claimed for it at most.
    fn most(&self) -> usize {
        self.admission().slots() * 2
    }

    /// How many messages it has: it is asked for them, they wait for their turn, or they are about to come.
    fn load(&self) -> usize {
        self.admission().load() + self.expected().get()
    }
}
