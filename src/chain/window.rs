//! Counts of calls over the last while.
//!
//! Owns no clock and no opinion on the counts.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// In how many slices the window is cut. It slides by whole slices, so that its size in memory does not depend on the
/// number of calls.
const SLICES: u64 = 10;

/// Calls of the last while, and how many of them failed.
#[derive(Debug)]
pub(super) struct Window {
    began: Instant,
    slice: Duration,
    slices: VecDeque<Slice>,
}

#[derive(Debug)]
struct Slice {
    number: u64,
    calls: u32,
    failures: u32,
}

impl Window {
    /// An empty window of that length.
    pub(super) fn new(length: Duration, now: Instant) -> Self {
        let slice = (length / u32::try_from(SLICES).unwrap_or(1)).max(Duration::from_millis(1));
        Self { began: now, slice, slices: VecDeque::new() }
    }

    /// Counts a call.
    pub(super) fn record(&mut self, failed: bool, now: Instant) {
        let number = self.number(now);
        if self.slices.back().is_none_or(|slice| slice.number < number) {
            self.slices.push_back(Slice { number, calls: 0, failures: 0 });
        }
        if let Some(slice) = self.slices.back_mut() {
            slice.calls = slice.calls.saturating_add(1);
            slice.failures = slice.failures.saturating_add(u32::from(failed));
        }
        self.forget(number);
    }

    /// The calls of the window, and how many of them failed.
    pub(super) fn totals(&self, now: Instant) -> (u32, u32) {
        let number = self.number(now);
        self.slices
            .iter()
            .filter(|slice| slice.number + SLICES > number)
            .fold((0, 0), |(calls, failures), slice| (calls + slice.calls, failures + slice.failures))
    }

    fn forget(&mut self, number: u64) {
        while self.slices.front().is_some_and(|slice| slice.number + SLICES <= number) {
            self.slices.pop_front();
        }
    }

    fn number(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.began).as_millis() / self.slice.as_millis();
        u64::try_from(elapsed).unwrap_or(u64::MAX - SLICES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_leave_the_window_as_it_slides() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut window = Window::new(Duration::from_secs(30), start);
        window.record(true, at(0));
        window.record(false, at(0));
        window.record(true, at(20));
        assert_eq!(window.totals(at(29)), (3, 2));
        assert_eq!(window.totals(at(30)), (1, 1));
        assert_eq!(window.totals(at(60)), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn its_size_does_not_grow_with_calls() {
        let start = Instant::now();
        let mut window = Window::new(Duration::from_secs(30), start);
        for ms in 0..100_000 {
            window.record(false, start + Duration::from_millis(ms));
        }
        assert!(window.slices.len() <= 10);
    }
}
