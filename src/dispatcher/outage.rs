//! Whether the database was away: shared by those who notice and the one who has to act on it.
//!
//! Owns the flag; what comes first when the database is back is decided where messages are claimed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

use crate::outbox::OutboxError;

/// Whether the database was away since somebody last looked after what that means.
#[derive(Clone, Default)]
pub(super) struct Outage {
    was_away: Arc<AtomicBool>,
    noted: Arc<Notify>,
}

impl Outage {
    /// Takes notice of an error, if it is that one.
    pub(super) fn note(&self, error: &OutboxError) {
        if matches!(error, OutboxError::Unavailable(_) | OutboxError::NotSetUp(_)) {
            self.was_away.store(true, Ordering::SeqCst);
            self.noted.notify_one();
        }
    }

    /// Whether it was away. From now on only what is noticed anew counts.
    pub(super) fn take(&self) -> bool {
        self.was_away.swap(false, Ordering::SeqCst)
    }

    /// Waits until somebody notices that it is away.
    pub(super) async fn noted(&self) {
        self.noted.notified().await;
    }
}
