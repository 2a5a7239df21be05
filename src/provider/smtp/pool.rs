//! Conversations that wait for the next message.
//!
//! Owns their age and number of messages; opens none, and takes back only what is in step.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use super::session::Session;

/// The idle conversations of one provider. How many are in use at once is bounded by who asks, and so is how many are
/// idle.
pub(super) struct Pool {
    shelf: Mutex<Shelf>,
    keep: Duration,
    messages: u32,
}

#[derive(Default)]
struct Shelf {
    /// The one that waits longest in front.
    idle: VecDeque<Idle>,
    /// Whether a task waits to put away what nobody wants.
    tended: bool,
}

struct Idle {
    session: Session,
    until: Instant,
}

impl Pool {
    /// A pool that keeps a conversation for that long and that many messages.
    pub(super) fn new(keep: Duration, messages: u32) -> Arc<Self> {
        Arc::new(Self { shelf: Mutex::default(), keep, messages })
    }

    /// The conversation used last, if one is still good. A conversation that its server ended or broke into is dropped.
    pub(super) fn take(&self) -> Option<Session> {
        let now = Instant::now();
        loop {
            let Idle { session, until } = self.shelf().idle.pop_back()?;
            if until <= now {
                session.retire();
            } else if session.wire.is_quiet() {
                return Some(session);
            }
        }
    }

    /// Takes a conversation back; one that is out of step or has done its share is ended.
    pub(super) fn give_back(self: &Arc<Self>, session: Session) {
        if !session.is_reusable() || session.messages >= self.messages || self.keep.is_zero() {
            return session.retire();
        }
        let until = Instant::now() + self.keep;
        let mut shelf = self.shelf();
        shelf.idle.push_back(Idle { session, until });
        if !shelf.tended {
            shelf.tended = true;
            tokio::spawn(tend(Arc::downgrade(self)));
        }
    }

    /// Ends those whose time is over. Gives when the next one's is; `None` if none is left.
    fn put_away(&self) -> Option<Instant> {
        let mut shelf = self.shelf();
        let now = Instant::now();
        while shelf.idle.front().is_some_and(|idle| idle.until <= now) {
            shelf.idle.pop_front().into_iter().for_each(|idle| idle.session.retire());
        }
        let next = shelf.idle.front().map(|idle| idle.until);
        shelf.tended = next.is_some();
        next
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts away what nobody wants, until nothing is left.
async fn tend(pool: Weak<Pool>) {
    while let Some(next) = pool.upgrade().and_then(|pool| pool.put_away()) {
        sleep_until(next).await;
    }
}
