//! The bytes of content that a process holds at once.
//!
//! Owns their number; reads nothing.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What is counted: a semaphore's permits are 32 bits, and bytes are more.
const UNIT_BYTES: u64 = 1024;

/// What a message costs beside its content: the structures round it, and a task.
const OVERHEAD_BYTES: u64 = 4096;

/// The bytes that contents may take.
#[derive(Clone)]
pub(super) struct ContentBudget {
    units: Arc<Semaphore>,
    all: u32,
}

/// The bytes of one message, until it is dropped.
pub(super) struct ContentShare {
    _units: OwnedSemaphorePermit,
}

impl ContentBudget {
    pub(super) fn new(bytes: u64) -> Self {
        let all = u32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX);
        let all = all.min(u32::try_from(Semaphore::MAX_PERMITS).unwrap_or(u32::MAX));
        Self { units: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// Waits for the bytes of a message with a stored content of that size. One that is larger than all there is gets
    /// all there is, and so is alone.
    pub(super) async fn take(&self, size_bytes: u64) -> Option<ContentShare> {
        // It is never closed.
        let units = self.units.clone().acquire_many_owned(self.units_of(size_bytes)).await.ok()?;
        Some(ContentShare { _units: units })
    }

    /// The same, if they are there and nobody waits for them.
    pub(super) fn try_take(&self, size_bytes: u64) -> Option<ContentShare> {
        let units = self.units.clone().try_acquire_many_owned(self.units_of(size_bytes)).ok()?;
        Some(ContentShare { _units: units })
    }

    /// What a send really holds: the content, and its MIME form, in which attachments are base64 (RFC 2045, 6.8: four
    /// bytes for three, and the line ends).
    fn units_of(&self, size_bytes: u64) -> u32 {
        let bytes = size_bytes.saturating_add(size_bytes / 100 * 138).saturating_add(OVERHEAD_BYTES);
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.all)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    #[test]
    fn no_more_is_held_than_there_is_and_what_is_given_back_is_there_again() {
        let budget = ContentBudget::new(50 * MB);
        let mut held: Vec<ContentShare> = std::iter::from_fn(|| budget.try_take(5 * MB)).collect();
        assert_eq!(held.len(), 4, "each with its MIME form");
        assert!(budget.try_take(5 * MB).is_none());
        held.pop();
        assert!(budget.try_take(5 * MB).is_some());
    }

    #[tokio::test]
    async fn a_message_larger_than_all_there_is_goes_alone() {
        let budget = ContentBudget::new(10 * MB);
        let small = budget.try_take(10).unwrap();
        assert!(budget.try_take(100 * MB).is_none(), "not beside another");
        let mut large = std::pin::pin!(budget.take(100 * MB));
        assert!(futures_util::poll!(&mut large).is_pending());
        drop(small);
        let large = large.await.unwrap();
        assert!(budget.try_take(10).is_none(), "and none beside it");
        drop(large);
        assert!(budget.try_take(10).is_some());
    }
}
