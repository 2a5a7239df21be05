//! Those who watch messages, and the one who looks for all of them.
//!
//! Owns how often it is looked, and that it costs one statement however many watch. Nobody has to tell it of a change: it
//! sees what the tables say, whichever process wrote it and whatever stands between. What is sent to a watcher is decided
//! by `watch`.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    message::MessageId,
    outbox::{MessageStatus, Outbox, OutboxError, StatusVersion},
};

/// How often it is looked while anybody watches.
const EVERY: Duration = Duration::from_millis(250);

/// How long it is waited at most after a look that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often a message is read that has not changed: only so it shows that it is no longer kept.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// What a look has found of a message.
#[derive(Clone, Debug)]
pub(super) enum Found {
    /// Where it stands.
    Message(Arc<MessageStatus>, StatusVersion),
    /// There is no such message.
    Nothing,
    /// It could not be looked.
    Failed(OutboxError),
}

/// The looks are numbered, since whoever begins to watch wants to know of one that began later.
#[derive(Clone, Debug)]
struct Seen {
    look: u64,
    found: Option<Found>,
}

/// Those who watch, of one process. Clones are the same.
#[derive(Clone)]
pub(super) struct Watchers {
    shared: Arc<Shared>,
}

struct Shared {
    outbox: Outbox,
    places: Arc<Semaphore>,
    watched: Mutex<Watched>,
    /// Somebody watches where nobody did.
    began: Notify,
    stop: CancellationToken,
}

#[derive(Default)]
struct Watched {
    /// How many looks have begun.
    looks: u64,
    messages: HashMap<MessageId, Entry>,
}

/// A message that somebody watches.
struct Entry {
    watchers: usize,
    seen: watch::Sender<Seen>,
    /// As what it was seen last; none where somebody has yet to be told of it.
    version: Option<StatusVersion>,
    /// The look that whoever came last waits for.
    awaited: u64,
    read_at: Instant,
}

/// One who watches one message. Dropped, it is forgotten.
pub(super) struct Watcher {
    id: MessageId,
    /// The first look that counts.
    from: u64,
    seen: watch::Receiver<Seen>,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl Watchers {
    /// Nobody yet; at most so many.
    pub(super) fn new(outbox: Outbox, limit: usize) -> Self {
        let shared = Shared {
            outbox,
            places: Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))),
            watched: Mutex::default(),
            began: Notify::new(),
            stop: CancellationToken::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Begins to watch a message; `None` if there are too many who do.
    pub(super) fn watch(&self, id: MessageId) -> Option<Watcher> {
        let place = self.shared.places.clone().try_acquire_owned().ok()?;
        let mut watched = self.shared.watched();
        let from = watched.looks + 1;
        let entry = watched.messages.entry(id).or_insert_with(Entry::new);
        entry.watchers += 1;
        entry.version = None;
        entry.awaited = from;
        let seen = entry.seen.subscribe();
        drop(watched);
        self.shared.began.notify_one();
        Some(Watcher { id, from, seen, shared: self.shared.clone(), _place: place })
    }

    /// Ends every watch, and lets none begin.
    pub(super) fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Looks for as long as anybody watches, until told to stop.
    pub(super) async fn run(&self) {
        let work = async {
            let mut pause = EVERY;
            loop {
                self.shared.anybody().await;
                let began = Instant::now();
                pause = if self.shared.look().await { EVERY } else { (pause * 2).min(LONGEST_PAUSE) };
                sleep_until(began + pause).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = self.shared.stop.cancelled() => {}
        }
    }
}

impl Watcher {
    /// What the next look has found that is news; `None` when the process stops.
    pub(super) async fn next(&mut self) -> Option<Found> {
        let shared = self.shared.clone();
        loop {
            tokio::select! {
                biased;
                () = shared.stop.cancelled() => return None,
                changed = self.seen.changed() => changed.ok()?,
            }
            let Seen { look, found } = self.seen.borrow_and_update().clone();
            if look >= self.from && found.is_some() {
                return found;
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watched = self.shared.watched();
        if let Some(entry) = watched.messages.get_mut(&self.id) {
            entry.watchers -= 1;
            if entry.watchers == 0 {
                watched.messages.remove(&self.id);
            }
        }
    }
}

impl Shared {
    /// Waits until anybody watches.
    async fn anybody(&self) {
        while self.watched().messages.is_empty() {
            self.began.notified().await;
        }
    }

    /// Looks once, for all; whether that was possible.
    async fn look(&self) -> bool {
        let (look, asked) = self.watched().begin();
        match self.outbox.changes(&asked).await {
            Ok(changes) => {
                self.watched().tell(look, &asked, changes);
                true
            }
            Err(error) => {
                tracing::debug!(%error, watched = asked.len(), "watched messages could not be looked at");
                self.watched().fail(look, &error);
                false
            }
        }
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Begins a look: its number, and what is asked.
    fn begin(&mut self) -> (u64, Vec<(MessageId, Option<StatusVersion>)>) {
        self.looks += 1;
        let now = Instant::now();
        let ask = |(id, entry): (&MessageId, &mut Entry)| {
            if now.duration_since(entry.read_at) >= AGAIN_AFTER {
                entry.version = None;
            }
            (*id, entry.version.clone())
        };
        (self.looks, self.messages.iter_mut().map(ask).collect())
    }

    fn tell(
        &mut self,
        look: u64,
        asked: &[(MessageId, Option<StatusVersion>)],
        changes: Vec<(MessageStatus, StatusVersion)>,
    ) {
        let mut unseen: HashSet<MessageId> =
            asked.iter().filter(|(_, version)| version.is_none()).map(|(id, _)| *id).collect();
        for (message, version) in changes {
            unseen.remove(&message.id);
            let Some(entry) = self.messages.get_mut(&message.id) else { continue };
            entry.read_at = Instant::now();
            // Whoever has come meanwhile waits for the next.
            entry.version = Some(version.clone()).filter(|_| look >= entry.awaited);
            entry.seen.send_replace(Seen { look, found: Some(Found::Message(Arc::new(message), version)) });
        }
        for entry in unseen.iter().filter_map(|id| self.messages.get(id)) {
            entry.seen.send_replace(Seen { look, found: Some(Found::Nothing) });
        }
    }

    /// Tells those who have been told nothing yet.
    fn fail(&mut self, look: u64, error: &OutboxError) {
        for entry in self.messages.values().filter(|entry| entry.version.is_none()) {
            entry.seen.send_replace(Seen { look, found: Some(Found::Failed(error.clone())) });
        }
    }
}

impl Entry {
    fn new() -> Self {
        let seen = watch::Sender::new(Seen { look: 0, found: None });
        Self { watchers: 0, seen, version: None, awaited: 0, read_at: Instant::now() }
    }
}
