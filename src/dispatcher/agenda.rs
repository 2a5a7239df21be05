//! When the dispatcher looks for itself, whatever it was told.
//!
//! Owns the times; knows no lane.

use std::time::Duration;

use tokio::time::Instant;

use crate::config;

/// How long a look, or a sweep, is followed by none: so many times as long as it took. It costs a hundredth of the
/// database at most, however long it takes.
const SHARE: u32 = 100;

/// But no longer: a look may have taken long for want of a connection, and not for what it cost.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// The same for a look that something is known to be found by.
const SHARE_OF_NEWS: u32 = 2;

/// How often lanes are swept that nothing is claimed from.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The shortest time from one look to the next.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The times at which something is to be done.
pub(super) struct Agenda {
    poll_shortest: Duration,
    poll_longest: Duration,
    /// When every lane is looked at from its beginning.
    pub(super) look_at: Instant,
    /// When that may be done the next time, if there is a reason.
    may_look_at: Instant,
    /// When every lane is claimed from, in case nobody told of what is in it.
    pub(super) poll_at: Instant,
    poll_pause: Duration,
    /// When lanes are swept that nothing is claimed from.
    pub(super) sweep_at: Instant,
}

impl Agenda {
    /// Everything is to be done at once.
    pub(super) fn new(settings: &config::Dispatch) -> Self {
        let now = Instant::now();
        Self {
            poll_shortest: settings.poll_shortest,
            poll_longest: settings.poll_longest,
            look_at: now,
            may_look_at: now,
            poll_at: now + settings.poll_shortest,
            poll_pause: settings.poll_shortest,
            sweep_at: now,
        }
    }

    /// Lanes were looked at. The next time it is some other process's turn: with each as often as there are processes,
    /// and at times that drift apart, about one of them does it each time. That is enough, since what one finds any may
    /// claim, and whoever finds it does.
    pub(super) fn looked(&mut self, took: Duration, processes: usize) {
        let now = Instant::now();
        let processes = u32::try_from(processes).unwrap_or(u32::MAX);
        let rest = took.saturating_mul(SHARE).min(LONGEST_REST);
        let pause = self.poll_longest.max(rest).saturating_mul(processes);
        self.look_at = now + pause.mul_f64(rand::random_range(1.0..1.5));
        self.may_look_at = now + LOOK_AGAIN_AFTER.max(took * SHARE_OF_NEWS);
        self.poll_at = now + self.poll_pause;
    }

    /// There is a reason to look before it is time.
    pub(super) fn look_soon(&mut self) {
        self.look_at = self.look_at.min(self.may_look_at);
    }

    /// There is a reason to look, but not yet.
    pub(super) fn look_within(&mut self, pause: Duration) {
        self.look_at = self.look_at.min(Instant::now() + pause);
    }

    /// There is more than a reason.
    pub(super) fn look_now(&mut self) {
        self.look_at = Instant::now();
    }

    /// Lanes were marked to be claimed from: the pause doubles until something is found.
    pub(super) fn polled(&mut self) {
        self.poll_pause = (self.poll_pause * 2).min(self.poll_longest);
        self.poll_at = Instant::now() + self.poll_pause;
    }

    /// Something was found: more may come.
    pub(super) fn found_something(&mut self) {
        self.poll_pause = self.poll_shortest;
        self.poll_at = Instant::now() + self.poll_pause;
    }

    /// Lanes were swept.
    pub(super) fn swept(&mut self, took: Duration, processes: usize) {
        let processes = u32::try_from(processes).unwrap_or(u32::MAX);
        self.sweep_at = Instant::now() + SWEEP_EVERY.max(took.saturating_mul(SHARE)).saturating_mul(processes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agenda() -> Agenda {
        Agenda::new(&config::Dispatch { poll_longest: Duration::from_secs(5), ..config::Dispatch::default() })
    }

    fn seconds_until(time: Instant) -> f64 {
        (time - Instant::now()).as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_takes_a_hundredth_of_the_time_and_the_processes_take_turns() {
        let mut agenda = agenda();
        for (took_ms, processes, expected) in
            [(1, 1, 5.0), (200, 1, 20.0), (1, 4, 20.0), (200, 4, 80.0), (3000, 1, 30.0)]
        {
            agenda.looked(Duration::from_millis(took_ms), processes);
            let pause = seconds_until(agenda.look_at);
            assert!((expected..1.5 * expected).contains(&pause), "{took_ms} {processes}: {pause}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn news_bring_the_next_look_forward_but_not_without_bound() {
        let mut agenda = agenda();
        agenda.looked(Duration::from_millis(50), 1);
        for _ in 0..2 {
            agenda.look_soon();
            assert_eq!(seconds_until(agenda.look_at), 0.1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn polls_become_rare_until_something_is_found() {
        let mut agenda = agenda();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pauses.push((seconds_until(agenda.poll_at) * 1000.0).round() as u64);
            agenda.polled();
        }
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        agenda.found_something();
        assert_eq!(seconds_until(agenda.poll_at), 0.05);
    }
}
