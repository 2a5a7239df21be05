//! How many messages a chain takes now.
//!
//! Owns the bound on what is claimed for it; what is admitted is its providers' admission to say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::time::Instant;

use super::{Chain, link::Link};
use crate::{delivery::ProviderName, message::Priority};

/// Whether a chain takes messages, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready {
        /// The provider that is asked first.
        provider: ProviderName,
        /// How many more messages than it has.
        places: usize,
        /// How many of them only try out whether a provider is well again: those that matter least had better do that.
        trials: usize,
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

/// How many messages of each priority are about to come.
#[derive(Default)]
pub(super) struct Expected {
    high: Count,
    normal: Count,
    bulk: Count,
}

impl Expected {
    fn of(&self, priority: Priority) -> &Count {
        match priority {
            Priority::High => &self.high,
            Priority::Normal => &self.normal,
            Priority::Bulk => &self.bulk,
        }
    }

    /// How many in all.
    pub(super) fn all(&self) -> usize {
        self.high.get() + self.below(Priority::High)
    }

    /// How many that matter less than that priority.
    pub(super) fn below(&self, priority: Priority) -> usize {
        match priority {
            Priority::High => self.normal.get() + self.bulk.get(),
            Priority::Normal => self.bulk.get(),
            Priority::Bulk => 0,
        }
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
        let (mut places, mut trials, mut most) = (0, 0, 0);
        for link in ready {
            let (most_here, load) = (link.admission().most(), link.admission().load());
            let (room, coming) = (link.room(), link.admission().expected().all());
            let more = most_here.saturating_sub(load);
            // What is about to come takes of the room too.
            let of_room = |room: usize| room.saturating_sub(coming).min(more);
            places += room.map_or(more, of_room);
            trials += link.trial_room().map_or(0, of_room);
            most += room.map_or(most_here, |room| room.min(most_here));
            if room.is_none() {
                break;
            }
        }
        Readiness::Ready { provider, places, trials, most }
    }

    /// Counts a message that was claimed for a provider, until what this gives is dropped: as soon as it is offered, it
    /// is counted there.
    pub fn expect(&self, provider: &ProviderName, priority: Priority) -> Option<Counted> {
        let link = self.links.iter().find(|link| link.name() == provider)?;
        Some(link.admission().expected().of(priority).one())
    }
}

impl Link {
    /// How many calls it takes while it is only being tried out, or comes back from a rest; `None` while neither.
    fn room(&self) -> Option<usize> {
        self.admission().gate().room().and_then(|room| usize::try_from(room).ok())
    }

    /// How many of them are to find out whether it is well again.
    fn trial_room(&self) -> Option<usize> {
        self.admission().gate().trial_room().and_then(|room| usize::try_from(room).ok())
    }
}
