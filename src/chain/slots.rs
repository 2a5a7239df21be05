//! How many messages are with one provider at once.
//!
//! Owns the slots and their number, which changes as processes come and go. Whose share it is, is decided elsewhere.

use std::{
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of one provider. Clones are the same.
#[derive(Clone)]
pub(super) struct Slots(Arc<Shared>);

struct Shared {
    permits: Arc<Semaphore>,
    size: Mutex<usize>,
    /// How many of those that are taken are no longer there when they are given back.
    owed: AtomicUsize,
}

/// One of them; given back when it is dropped.
pub(super) struct Slot {
    slots: Slots,
    permit: Option<OwnedSemaphorePermit>,
}

impl Slots {
    /// So many, one at least.
    pub(super) fn new(size: usize) -> Self {
        let size = bounded(size);
        let permits = Arc::new(Semaphore::new(size));
        Self(Arc::new(Shared { permits, size: Mutex::new(size), owed: AtomicUsize::new(0) }))
    }

    /// Takes one, as soon as there is one.
    pub(super) async fn take(&self) -> Slot {
        match self.0.permits.clone().acquire_owned().await {
            Ok(permit) => Slot { slots: self.clone(), permit: Some(permit) },
            // The semaphore is never closed.
            Err(_) => pending().await,
        }
    }

    /// How many are taken.
    pub(super) fn taken(&self) -> usize {
        let size = self.size();
        (*size + self.0.owed.load(Ordering::Relaxed)).saturating_sub(self.0.permits.available_permits())
    }

    /// From now on there are so many, one at least. What is taken is not taken back: a slot too many ends with its call.
    pub(super) fn resize(&self, to: usize) {
        let to = bounded(to);
        let mut size = self.size();
        if to > *size {
            let more = to - *size;
            let forgiven = more.min(self.0.owed.load(Ordering::Relaxed));
            self.0.owed.fetch_sub(forgiven, Ordering::Relaxed);
            self.0.permits.add_permits(more - forgiven);
        } else {
            let less = *size - to;
            let owed = less - self.0.permits.forget_permits(less);
            self.0.owed.fetch_add(owed, Ordering::Relaxed);
        }
        *size = to;
    }

    /// Under its lock slots are neither given back nor changed in number.
    fn size(&self) -> MutexGuard<'_, usize> {
        self.0.size.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _size = self.slots.size();
        let owed = &self.slots.0.owed;
        if owed.load(Ordering::Relaxed) > 0
            && let Some(permit) = self.permit.take()
        {
            owed.fetch_sub(1, Ordering::Relaxed);
            permit.forget();
        }
        drop(self.permit.take());
    }
}

fn bounded(size: usize) -> usize {
    size.clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn take(slots: &Slots) -> Option<Slot> {
        slots.take().now_or_never()
    }

    #[test]
    fn fewer_slots_are_reached_as_calls_end_and_no_call_is_cut_off() {
        let slots = Slots::new(4);
        let mut calls: Vec<Slot> = (0..4).filter_map(|_| take(&slots)).collect();
        slots.resize(2);
        assert_eq!(slots.taken(), 4);
        for left in [3, 2] {
            calls.pop();
            assert!(take(&slots).is_none(), "{left} are under way");
            assert_eq!(slots.taken(), left);
        }
        calls.pop();
        assert!(take(&slots).is_some());
    }

    #[test]
    fn more_slots_are_there_at_once_also_where_some_were_to_go() {
        let slots = Slots::new(4);
        let calls: Vec<Slot> = (0..4).filter_map(|_| take(&slots)).collect();
        slots.resize(1);
        slots.resize(5);
        let fifth = take(&slots);
        assert!(fifth.is_some() && take(&slots).is_none());
        assert_eq!(slots.taken(), 5);
        drop((calls, fifth));
        let all: Vec<Slot> = (0..9).filter_map(|_| take(&slots)).collect();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn a_free_slot_goes_at_once_and_one_is_left_for_what_has_come_already() {
        let slots = Slots::new(3);
        slots.resize(0);
        let one = take(&slots);
        assert!(one.is_some() && take(&slots).is_none());
    }
}
