//! How long the loop waits: for more places, until there is something to do, for news.
//!
//! Owns the pauses; takes nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Claims;
use crate::dispatcher::rooms::Rooms;

/// While there is more to do than places, a claim waits this long for a quarter of its size to be free: one for each
/// message that ends would cost a statement each.
const LINGER: Duration = Duration::from_millis(5);

/// How often a chain is asked whether it rests no longer, at least.
const REST_CHECK: Duration = Duration::from_secs(1);

impl Claims<'_> {
    /// While there is a backlog, waits a moment for more places.
    pub(super) async fn linger(&self, mut rooms: Rooms) -> Rooms {
        if !self.has_backlog {
            return rooms;
        }
        let until = Instant::now() + LINGER;
        loop {
            let free = self.places.free().min(rooms.places());
            let wanted = self.dispatcher.settings.claim_size.min(rooms.most) / 4;
            if free == 0 || free >= wanted || timeout_at(until, self.places.freed()).await.is_err() {
                return rooms;
            }
            rooms = self.rooms();
        }
    }

    /// When there is something to do, though nobody tells.
    pub(super) fn next_turn_at(&self, rooms: &Rooms) -> Instant {
        let now = Instant::now();
        let mut next = self.agenda.look_at;
        if !self.dispatcher.wake.is_listening() {
            next = next.min(self.agenda.poll_at);
        }
        if let Some(until) = rooms.resting_until {
            next = next.min(until.clamp(now + LINGER, now + REST_CHECK)).min(self.agenda.sweep_at.max(now + LINGER));
        }
        if let Some(due_at) = self.book.lock().next_due(self.now()) {
            // A little later, since the clocks agree no better.
            let in_time = Duration::try_from(due_at - self.now()).unwrap_or_default() + Duration::from_millis(1);
            next = next.min((now + in_time).max(self.quiet_until));
        }
        next
    }

    /// Waits until then, or until there is news, or a place for what waits.
    pub(super) async fn rest(&self, until: Instant, stop: &CancellationToken) {
        let waits_for_place = self.book.lock().is_waiting(&self.rooms().open, self.now());
        // What seemed to be due and was not is looked at again in a moment.
        let was_not_there = waits_for_place && self.quiet_until > Instant::now();
        let until = if was_not_there { until.min(self.quiet_until) } else { until };
        tokio::select! {
            () = self.dispatcher.wake.rung() => {}
            () = self.places.freed(), if waits_for_place => {}
            () = self.outage.noted() => {}
            () = sleep_until(until) => {}
            () = stop.cancelled() => {}
        }
    }
}
