//! Conversations that wait for the next message.
//!
//! Owns their age and number of messages; opens none, and takes back only what is in step.

use std::{
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
    age: Duration,
    messages: u32,
}

#[derive(Default)]
struct Shelf {
    /// The one that was used last is the last.
    idle: Vec<Idle>,
    /// Whether a task waits to put away what nobody wants.
    tended: bool,
}

struct Idle {
    session: Session,
    until: Instant,
}

impl Pool {
    /// A pool that keeps an idle conversation for that long, and uses one up to that age and for that many messages.
    pub(super) fn new(keep: Duration, age: Duration, messages: u32) -> Arc<Self> {
        Arc::new(Self { shelf: Mutex::default(), keep, age, messages })
    }

    /// The conversation used last, if one is still good. A conversation that its server ended or broke into is dropped.
    pub(super) fn take(&self) -> Option<Session> {
        let now = Instant::now();
        loop {
            let Idle { mut session, until } = self.shelf().idle.pop()?;
            if until <= now {
                session.retire();
            } else if session.wire.is_quiet() {
                return Some(session);
            }
        }
    }

    /// Takes a conversation back; one that is out of step or has done its share is ended.
    pub(super) fn give_back(self: &Arc<Self>, session: Session) {
        let now = Instant::now();
        let until = (now + self.keep).min(session.began + self.age);
        if !session.is_in_step() || session.messages >= self.messages || until <= now {
            return session.retire();
        }
        let mut shelf = self.shelf();
        shelf.idle.push(Idle { session, until });
        if !shelf.tended {
            shelf.tended = true;
            tokio::spawn(tend(Arc::downgrade(self)));
        }
    }

    /// Ends those whose time is over. Gives when the next one's is; `None` if none is left.
    fn put_away(&self) -> Option<Instant> {
        let mut shelf = self.shelf();
        let now = Instant::now();
        let (over, kept): (Vec<_>, Vec<_>) = shelf.idle.drain(..).partition(|idle| idle.until <= now);
        shelf.idle = kept;
        over.into_iter().for_each(|idle| idle.session.retire());
        let next = shelf.idle.iter().map(|idle| idle.until).min();
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
