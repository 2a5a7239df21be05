//! Grouped accept: messages of many callers are committed together, each caller is answered after its own commit.
//!
//! Owns the queue of what waits to be committed and its bounds. How a group is stored is told beside, in `flush`.
//!
//! No timer holds anything up: a flush begins as soon as fewer than two are under way, with whatever waits by then. So a
//! single caller's message is committed at once, and the more callers there are the larger the groups become.

mod flush;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;

use super::{Accepted, NewMessage, Openings, Outbox, OutboxError, Wake, content};
use crate::message::MessageId;

/// How many flushes are under way at most: while one is being committed the next is on its way.
const FLUSHES: usize = 2;

/// A flush takes no more than that.
const FLUSH_ROWS: usize = 128;
const FLUSH_BYTES: usize = 1024 * 1024;

/// A larger content is committed alone, so that it holds nobody up; so many of them at once.
const LARGE_BYTES: usize = 256 * 1024;
const LARGE_FLUSHES: usize = 2;

/// How many messages may wait at most, besides the bound on their bytes.
const WAITING_MESSAGES: usize = 20_000;

/// When a caller that was turned away had better come back.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What became of a message, and under which id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The id it was stored under, if it was: another than it came with where the clock was wrong.
    pub id: MessageId,
    /// What became of it.
    pub accepted: Accepted,
}

/// Why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// The callers are quicker than the database.
    #[error("too many messages wait to be stored")]
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// The outbox could not do it.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

/// Accepts messages one by one and stores them in groups. Clones are the same.
#[derive(Clone)]
pub struct Intake {
    shared: Arc<Shared>,
}

struct Shared {
    outbox: Outbox,
    openings: Option<Openings>,
    /// Told of messages that were stored and wait for a claim.
    wake: Wake,
    waiting_bytes: usize,
    queue: Mutex<Queue>,
    large: Arc<Semaphore>,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The bytes of what waits, and of what is being stored.
    bytes: usize,
    flushes: usize,
}

/// A message that waits to be stored, and whoever waits for it.
struct Entry {
    new: NewMessage,
    content: Vec<u8>,
    answer: oneshot::Sender<Result<Receipt, OutboxError>>,
}

impl Intake {
    /// The intake of that outbox. At most `waiting_bytes` of content wait to be stored. What this process's dispatcher
    /// can take at once goes through `openings`; of what cannot `wake` is told.
    pub fn new(outbox: Outbox, waiting_bytes: usize, openings: Option<Openings>, wake: Wake) -> Self {
        let shared = Shared {
            outbox,
            openings,
            wake,
            waiting_bytes,
            queue: Mutex::default(),
            large: Arc::new(Semaphore::new(LARGE_FLUSHES)),
            tasks: TaskTracker::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Stores a message. What is answered is committed.
    ///
    /// Where the connection is lost in the commit, the same is done again until it is known to be stored, nobody waits for
    /// the answer any more, or 20 seconds have passed: then it may be stored or not. Dropped before its turn came, nothing
    /// is stored; dropped later it may be.
    pub async fn accept(&self, new: NewMessage) -> Result<Receipt, IntakeError> {
        let content = content::encode(&new.message.email);
        let (answer, answered) = oneshot::channel();
        self.shared.admit(Entry { new, content, answer })?;
        match answered.await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(OutboxError::Unavailable("the process stops".to_owned()).into()),
        }
    }

    /// Ends once nothing is being stored any more, what nobody waits for included. Nothing may be accepted meanwhile.
    pub async fn finished(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Shared {
    /// Puts a message into the queue, and begins a flush if there is none to take it.
    fn admit(self: &Arc<Self>, entry: Entry) -> Result<(), IntakeError> {
        let size = entry.content.len();
        let mut queue = self.queue();
        // One that is larger than the bound by itself is taken when it is alone.
        let is_full = queue.bytes > 0 && queue.bytes + size > self.waiting_bytes;
        if is_full || queue.entries.len() >= WAITING_MESSAGES {
            return Err(IntakeError::Overloaded { retry_after: RETRY_AFTER });
        }
        queue.bytes += size;
        if size > LARGE_BYTES {
            drop(queue);
            self.tasks.spawn(self.clone().flush_large(entry));
            return Ok(());
        }
        queue.entries.push_back(entry);
        if queue.flushes < FLUSHES {
            queue.flushes += 1;
            drop(queue);
            self.tasks.spawn(self.clone().flush_all());
        }
        Ok(())
    }

    /// Stores group after group until nothing waits.
    async fn flush_all(self: Arc<Self>) {
        let mut flushing = Flushing { shared: self.clone(), is_over: false };
        while let Some(group) = self.next_group() {
            self.flush(group).await;
        }
        // The end was noted with the queue found empty, under one lock.
        flushing.is_over = true;
    }

    async fn flush_large(self: Arc<Self>, entry: Entry) {
        let turn = self.large.acquire().await;
        self.flush(vec![entry]).await;
        drop(turn);
    }

    /// What is stored next; `None`, and one flush less, if nothing waits.
    fn next_group(&self) -> Option<Vec<Entry>> {
        let mut queue = self.queue();
        let mut bytes = 0;
        let mut group = Vec::new();
        while let Some(entry) = queue.entries.front() {
            bytes += entry.content.len();
            if group.len() >= FLUSH_ROWS || (bytes > FLUSH_BYTES && !group.is_empty()) {
                break;
            }
            group.extend(queue.entries.pop_front());
        }
        if group.is_empty() {
            queue.flushes -= 1;
            return None;
        }
        Some(group)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A flush under way. One that ends by a panic gives its place back, and what waits gets another.
struct Flushing {
    shared: Arc<Shared>,
    is_over: bool,
}

impl Drop for Flushing {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut queue = self.shared.queue();
        if queue.entries.is_empty() {
            queue.flushes -= 1;
        } else {
            drop(queue);
            self.shared.tasks.spawn(self.shared.clone().flush_all());
        }
    }
}

/// The bytes of a group, counted among what waits until its flush has ended, however it does.
struct Held {
    shared: Arc<Shared>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.queue().bytes -= self.bytes;
    }
}
