//! What the parts of a process, and the processes of an outbox, tell each other of messages that are due.
//!
//! Owns no message: what is told may be lost, and is found by those who look for themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use time::OffsetDateTime;
use tokio::{sync::Notify, time::Instant};

use super::LaneId;
use crate::message::Clock;

/// How many due times to come are kept for somebody who does not ask for them.
const LATER_AT_MOST: usize = 10_000;

/// The bell that is rung for a process's dispatcher, and for those of others. Clones are the same bell.
#[derive(Clone, Debug, Default)]
pub struct Wake {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    clock: Clock,
    news: Mutex<Untaken>,
    rung: Notify,
    for_others: Mutex<ForOthers>,
    told_others: Notify,
    listening: AtomicBool,
    /// Processes that send from this outbox, besides this one.
    others: AtomicUsize,
}

/// What a dispatcher was told since it last asked.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Lanes in which something is due now, and since when.
    pub now: BTreeMap<LaneId, OffsetDateTime>,
    /// When something is due in a lane later.
    pub later: BTreeSet<(OffsetDateTime, LaneId)>,
    /// Whether something changed that has to be looked up.
    pub look_anew: bool,
}

/// News that nobody has taken yet.
#[derive(Debug, Default)]
struct Untaken {
    news: News,
    /// Since when something that is due now is among them.
    since: Option<Instant>,
}

/// What others are to be told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ForOthers {
    /// Lanes, and the earliest time at which something that they do not know of is due.
    pub(super) lanes: BTreeMap<LaneId, OffsetDateTime>,
    /// Whether they have to look anew.
    pub(super) look_anew: bool,
}

/// While it is kept, this process hears others.
pub(super) struct Listening(Wake);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.shared.listening.store(false, Ordering::Relaxed);
        // From now on it has to look for itself.
        self.0.shared.rung.notify_one();
    }
}

impl Wake {
    /// A bell; times are compared by that clock.
    pub fn new(clock: Clock) -> Self {
        Self { shared: Arc::new(Shared { clock, ..Shared::default() }) }
    }

    /// A message was accepted that waits in that lane: a dispatcher of this process and those of others may take it.
    /// Nothing is waited for.
    pub fn accepted(&self, lane: LaneId, due_at: OffsetDateTime) {
        self.expect(lane, due_at);
        let mut for_others = self.for_others();
        let earliest = for_others.lanes.entry(lane).or_insert(due_at);
        *earliest = due_at.min(*earliest);
        drop(for_others);
        self.shared.told_others.notify_one();
    }

    /// Something is due in that lane, which others know of or need not.
    pub fn expect(&self, lane: LaneId, due_at: OffsetDateTime) {
        let now = self.shared.clock.now();
        // Without a time of its own it is due from now on.
        let due_at = if due_at == OffsetDateTime::UNIX_EPOCH { now } else { due_at };
        let mut untaken = self.news();
        let Untaken { news, since } = &mut *untaken;
        if due_at <= now {
            since.get_or_insert_with(Instant::now);
            let earliest = news.now.entry(lane).or_insert(due_at);
            *earliest = due_at.min(*earliest);
        } else {
            news.later.insert((due_at, lane));
            if news.later.len() > LATER_AT_MOST {
                news.later.pop_last();
                news.look_anew = true;
            }
        }
        drop(untaken);
        self.shared.rung.notify_one();
    }

    /// A lane was paused, or goes on: every dispatcher looks anew.
    pub fn lanes_changed(&self) {
        self.look_anew();
        self.for_others().look_anew = true;
        self.shared.told_others.notify_one();
    }

    /// This process's dispatcher looks anew.
    pub fn look_anew(&self) {
        self.news().news.look_anew = true;
        self.shared.rung.notify_one();
    }

    /// Waits until there is news, which may have been taken meanwhile.
    pub async fn rung(&self) {
        self.shared.rung.notified().await;
    }

    /// Since when something due now has been told of that nobody has taken notice of.
    pub fn untaken_since(&self) -> Option<Instant> {
        self.news().since
    }

    /// What was told since the last call.
    pub fn take(&self) -> News {
        std::mem::take(&mut *self.news()).news
    }

    /// Whether this process hears what others accept. If not its dispatcher has to look now and then.
    pub fn is_listening(&self) -> bool {
        self.shared.listening.load(Ordering::Relaxed)
    }

    /// How many other processes send from this outbox, as far as is known.
    pub fn others(&self) -> usize {
        self.shared.others.load(Ordering::Relaxed)
    }

    /// So many other processes send from this outbox.
    pub fn set_others(&self, others: usize) {
        self.shared.others.store(others, Ordering::Relaxed);
    }

    /// Waits until there is something to tell others, which may have been told meanwhile.
    pub async fn told_others(&self) {
        self.shared.told_others.notified().await;
    }

    /// There is nobody to be told.
    pub fn forget_others(&self) {
        self.take_for_others();
    }

    /// This process hears what others tell, until what this gives is dropped.
    pub(super) fn listening(&self) -> Listening {
        self.shared.listening.store(true, Ordering::Relaxed);
        Listening(self.clone())
    }

    pub(super) fn take_for_others(&self) -> ForOthers {
        std::mem::take(&mut *self.for_others())
    }

    fn news(&self) -> MutexGuard<'_, Untaken> {
        self.shared.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn for_others(&self) -> MutexGuard<'_, ForOthers> {
        self.shared.for_others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
