//! Places: how many messages this process sends at once.
//!
//! Owns their number, and tells when one is free again.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The places of a process. Clones share them.
#[derive(Clone)]
pub(super) struct Places {
    permits: Arc<Semaphore>,
    freed: Arc<Notify>,
}

/// A place that nobody has claimed a message for: given back without a word.
pub(super) struct FreePlace(OwnedSemaphorePermit);

/// The place of one message. When it is dropped, who waits for places is told.
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(count)), freed: Arc::default() }
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Takes so many, or as many as are free.
    pub(super) fn take(&self, count: usize) -> Vec<FreePlace> {
        (0..count).map_while(|_| self.permits.clone().try_acquire_owned().ok().map(FreePlace)).collect()
    }

    /// The place is a message's from now on.
    pub(super) fn occupy(&self, FreePlace(permit): FreePlace) -> Place {
        Place { permit: Some(permit), freed: self.freed.clone() }
    }

    /// Who waits for places looks again: a provider has one.
    pub(super) fn ring(&self) {
        self.freed.notify_one();
    }

    /// Waits until a place was given back, which may be taken again by now.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.freed.notify_one();
    }
}
