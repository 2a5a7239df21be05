//! How many messages a chain takes now.
//!
//! Owns the bound on what is claimed for it; what is admitted is its providers' admission to say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::time::Instant;

use super::{Chain, line::Place, link::Link};
use crate::{
    config::WhenBusy,
    delivery::ProviderName,
    message::{MessageId, Priority},
};

/// Whether a chain takes messages, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready {
        /// The provider that is asked first; where several share its place, the one that most messages are offered to.
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
    /// that it is never idle for want of a claim. A provider that is only being tried out takes its probes, one that lets
    /// messages go on while it is busy only what it is asked at once, and what is more goes to the next. Whoever claims
    /// more than that has claimed them for nothing.
    pub fn readiness(&self) -> Readiness {
        let mut first = None;
        let (mut places, mut trials, mut most) = (0, 0, 0);
        for place in &*self.places {
            let room = PlaceRoom::of(place);
            let Some(ready) = room.first else { continue };
            first.get_or_insert_with(|| ready.name().clone());
            places += room.places;
            trials += room.trials;
            most += room.most;
            if !room.overflows {
                break;
            }
        }
        match first {
            Some(provider) => Readiness::Ready { provider, places, trials, most },
            None => {
                let again = self.links().filter_map(|link| link.rests_until()).min();
                Readiness::RestsUntil(again.unwrap_or_else(Instant::now))
            }
        }
    }

    /// The provider that is asked first for that message, if any is ready.
    pub fn first_for(&self, id: MessageId) -> Option<ProviderName> {
        self.line_for(id).find(|link| link.is_ready()).map(|link| link.name().clone())
    }

    /// Counts a message that was claimed for a provider, until what this gives is dropped: as soon as it is offered, it
    /// is counted there.
    pub fn expect(&self, provider: &ProviderName, priority: Priority) -> Option<Counted> {
        let link = self.links().find(|link| link.name() == provider)?;
        Some(link.admission().expected().of(priority).one())
    }
}

/// What one place of a chain takes now.
struct PlaceRoom<'a> {
    /// The one of its ready providers that most messages are offered to first.
    first: Option<&'a Link>,
    places: usize,
    /// How many of them are to find out whether a provider is well again.
    trials: usize,
    most: usize,
    /// Whether what it does not take goes to the next place.
    overflows: bool,
}

impl<'a> PlaceRoom<'a> {
    /// Where several share the place and are waited for, no more than each can have of its share: else messages would
    /// pile up before the one that is full while the other has room.
    fn of(place: &'a Place) -> Self {
        let ready: Vec<(&Link, u32)> = place
            .shares()
            .iter()
            .filter(|(link, _)| link.is_ready())
            .map(|(link, weight)| (&**link, *weight))
            .collect();
        // In a process without a place at one of them nobody waits for that one.
        let has_places = |link: &Link| link.admission().has_places();
        let weights: usize =
            ready.iter().filter(|(link, _)| has_places(link)).map(|(_, weight)| *weight as usize).sum();
        let first = ready.iter().rev().max_by_key(|(_, weight)| *weight).map(|(link, _)| *link);
        let mut room = Self { first, places: 0, trials: 0, most: 0, overflows: true };
        let mut bound = usize::MAX;
        for (link, weight) in ready {
            let most = link.most();
            let free = link.free();
            room.places += free;
            room.trials += link.trial_room().map_or(0, |room| link.of_room(room));
            room.most += most;
            if !link.overflows() {
                room.overflows = false;
                if !has_places(link) {
                    continue;
                }
                bound = bound.min(free.saturating_mul(weights) / (weight as usize).max(1));
            }
        }
        room.places = room.places.min(bound);
        room
    }
}

impl Link {
    /// How many calls it takes while it is only being tried out, or comes back from a rest; `None` while neither.
    fn room(&self) -> Option<usize> {
        self.admission().gate().room().and_then(|room| usize::try_from(room).ok())
    }

    /// How many messages are claimed for it at most.
    fn most(&self) -> usize {
        let most = self.admission().most();
        match self.room() {
            Some(room) => room.min(most),
            // Nothing waits for one that lets messages go on.
            None if self.when_busy() == WhenBusy::Next => most.div_ceil(2),
            None => most,
        }
    }

    /// How many more it takes now.
    fn free(&self) -> usize {
        match self.room() {
            Some(room) => self.of_room(room),
            None => self.most().saturating_sub(self.admission().load()),
        }
    }

    /// How much of that room is left: what is about to come takes of it too.
    fn of_room(&self, room: usize) -> usize {
        let admission = self.admission();
        let more = admission.most().saturating_sub(admission.load());
        room.saturating_sub(admission.expected().all()).min(more)
    }

    /// Whether what it cannot take goes to the next.
    fn overflows(&self) -> bool {
        self.room().is_some() || self.when_busy() == WhenBusy::Next
    }

    /// How many of them are to find out whether it is well again.
    fn trial_room(&self) -> Option<usize> {
        self.admission().gate().trial_room().and_then(|room| usize::try_from(room).ok())
    }
}
