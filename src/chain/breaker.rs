//! The circuit breaker: whether it makes sense to call a provider, judged by how its last calls ended.
//!
//! Owns no lock, no clock and no call: time is an argument, and what a call told is brought back by whoever made it.
//!
//! ```text
//!       ratio of failures over the window reached, or
//!            too many failures one after another
//!   closed ────────────────────────────────────────────▶ open ◀──────┐
//!      ▲                                                   │          │ a probe failed:
//!      │ as many probes succeeded as are allowed           │ its time │ twice as long
//!      │                                                   ▼ passed   │
//!      └─────────────────────────────────────────────── half-open ────┘
//! ```

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::window::Window;
use crate::{
    config,
    health::{Circuit, Opened},
};

/// A call that failed sooner than this says nothing of those that are under way.
const LONG: Duration = Duration::from_millis(500);

/// A circuit breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: config::Breaker,
    state: State,
    epoch: Epoch,
    /// How often it has re-opened since it was last closed.
    reopened: u32,
}

#[derive(Debug)]
enum State {
    Closed {
        window: Window,
        /// How many calls have failed since the last that succeeded.
        in_a_row: u32,
        /// When a call last succeeded.
        succeeded_at: Option<Instant>,
        /// The calls under way: how many began when.
        under_way: BTreeMap<Instant, u32>,
    },
    Open {
        until: Instant,
    },
    /// Since that time, whether or not anybody called then.
    HalfOpen {
        since: Instant,
        under_way: u32,
        succeeded: u32,
    },
}

/// The state under which a call was admitted. What it tells counts only as long as that state lasts: a success from
/// before the circuit opened must not close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

/// A call that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    epoch: Epoch,
    began: Instant,
}

/// Why no call is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is open until then.
    OpenUntil(Instant),
    /// It is half-open and all its probes are under way.
    ProbesUnderWay,
}

/// How a call ended, as far as it concerns the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The provider did well, and in time.
    Success,
    /// It did not.
    Failure {
        /// How long it asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// The call says nothing: it was called off, or ended by something that is not the provider's doing.
    Neutral,
}

impl Breaker {
    /// A closed breaker.
    pub(super) fn new(settings: config::Breaker, now: Instant) -> Self {
        let state = closed(&settings, now);
        Self { settings, state, epoch: Epoch(0), reopened: 0 }
    }

    /// Changes with its state.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Its state. One whose time has passed is half-open, whether or not somebody has called since.
    pub(super) fn circuit(&self, now: Instant) -> Circuit {
        match self.state {
            State::Closed { .. } => Circuit::Closed,
            State::Open { until } if until > now => Circuit::Open,
            State::Open { .. } | State::HalfOpen { .. } => Circuit::HalfOpen,
        }
    }

    /// Whether a call would be admitted now.
    pub(super) fn admits(&self, now: Instant) -> Result<(), Refusal> {
        match self.state {
            State::Open { until } if until > now => Err(Refusal::OpenUntil(until)),
            _ if self.probe_room() == Some(0) => Err(Refusal::ProbesUnderWay),
            _ => Ok(()),
        }
    }

    /// How many more calls may begin while it is not closed; `None` if it is closed.
    pub(super) fn probe_room(&self) -> Option<u32> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { .. } => Some(self.probes()),
            State::HalfOpen { under_way, succeeded, .. } => Some(self.probes().saturating_sub(under_way + succeeded)),
        }
    }

    /// Admits a call. Its end has to be told by [`Breaker::end`], or a probe would stay under way.
    pub(super) fn begin(&mut self, now: Instant) -> Result<Call, Refusal> {
        self.admits(now)?;
        if let State::Open { until } = self.state {
            self.enter(State::HalfOpen { since: until, under_way: 0, succeeded: 0 });
        }
        match &mut self.state {
            State::Closed { under_way, .. } => *under_way.entry(now).or_insert(0) += 1,
            State::HalfOpen { under_way, .. } => *under_way += 1,
            State::Open { .. } => {}
        }
        Ok(Call { epoch: self.epoch, began: now })
    }

    /// Takes notice of how a call ended.
    ///
    /// One that failed after a long time in which none succeeded speaks for those that have waited nearly as long: a
    /// provider that fell silent is left when the first call has failed, and not when as many more have begun and failed.
    pub(super) fn end(&mut self, call: Call, ending: Ending, now: Instant) {
        if call.epoch != self.epoch {
            return;
        }
        let probes = self.probes();
        match &mut self.state {
            State::Closed { window, in_a_row, succeeded_at, under_way } => {
                end_one(under_way, call.began);
                match ending {
                    Ending::Neutral => {}
                    Ending::Success => {
                        window.record(false, now);
                        *in_a_row = 0;
                        *succeeded_at = Some(now);
                    }
                    Ending::Failure { retry_after } => {
                        window.record(true, now);
                        *in_a_row = in_a_row.saturating_add(1);
                        let is_silent = succeeded_at.is_none_or(|last| last <= call.began);
                        let alike = if is_silent { waited_as_long(under_way, now - call.began, now) } else { 0 };
                        if in_a_row.saturating_add(alike) >= self.settings.consecutive_failures
                            || is_too_much(window.totals(now), &self.settings)
                        {
                            self.open(retry_after, now);
                        }
                    }
                }
            }
            State::HalfOpen { under_way, succeeded, .. } => {
                *under_way = under_way.saturating_sub(1);
                match ending {
                    Ending::Neutral => {}
                    Ending::Failure { retry_after } => {
                        self.reopened = self.reopened.saturating_add(1);
                        self.open(retry_after, now);
                    }
                    Ending::Success => {
                        *succeeded += 1;
                        if *succeeded >= probes {
                            self.close(now);
                        }
                    }
                }
            }
            State::Open { .. } => {}
        }
    }

    /// What others should know of it; `None` if it is closed.
    pub(super) fn known(&self) -> Option<Opened<Instant>> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { until } | State::HalfOpen { since: until, .. } => {
                Some(Opened { until, reopened: self.reopened })
            }
        }
    }

    /// Takes notice of what another process found out. Its word counts for whoever knows no better: where calls of our
    /// own do well it may be that process's network that is down.
    pub(super) fn learn(&mut self, theirs: Option<Opened<Instant>>, now: Instant) {
        match (&mut self.state, theirs) {
            (State::Closed { window, in_a_row: 0, .. }, Some(_)) if has_done_well(window.totals(now)) => {}
            (State::HalfOpen { succeeded: 1.., .. }, _) => {}
            (State::HalfOpen { .. }, Some(theirs)) if theirs.until <= now => {}
            (State::Closed { .. } | State::HalfOpen { .. }, Some(theirs)) => {
                self.reopened = theirs.reopened;
                self.enter(State::Open { until: theirs.until });
            }
            (State::Open { until }, Some(theirs)) => {
                *until = theirs.until.max(*until);
                self.reopened = self.reopened.max(theirs.reopened);
            }
            // A reason to try it, not to trust it.
            (State::Open { until }, None) => *until = now.min(*until),
            (State::Closed { .. } | State::HalfOpen { .. }, None) => {}
        }
    }

    /// A time that the provider named outranks the back-off in both directions: waiting longer than a provider asked
    /// for would turn minutes into hours.
    fn open(&mut self, retry_after: Option<Duration>, now: Instant) {
        let pause = retry_after.unwrap_or_else(|| self.back_off());
        self.enter(State::Open { until: now + pause });
    }

    fn close(&mut self, now: Instant) {
        self.reopened = 0;
        self.enter(closed(&self.settings, now));
    }

    fn enter(&mut self, state: State) {
        self.epoch.0 += 1;
        self.state = state;
    }

    fn back_off(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.reopened);
        self.settings.open_for.saturating_mul(factor).min(self.settings.open_longest)
    }

    /// At least one, or a circuit that opened would never close.
    fn probes(&self) -> u32 {
        self.settings.probes.max(1)
    }
}

fn closed(settings: &config::Breaker, now: Instant) -> State {
    State::Closed {
        window: Window::new(settings.window, now),
        in_a_row: 0,
        succeeded_at: None,
        under_way: BTreeMap::new(),
    }
}

fn end_one(under_way: &mut BTreeMap<Instant, u32>, began: Instant) {
    if let Some(count) = under_way.get_mut(&began) {
        *count -= 1;
        if *count == 0 {
            under_way.remove(&began);
        }
    }
}

/// How many of the calls under way have taken three quarters of that time or more.
fn waited_as_long(under_way: &BTreeMap<Instant, u32>, took: Duration, now: Instant) -> u32 {
    if took < LONG {
        return 0;
    }
    let latest = now - took / 4 * 3;
    under_way.range(..=latest).map(|(_, count)| count).sum()
}

fn has_done_well((calls, failures): (u32, u32)) -> bool {
    calls > failures
}

fn is_too_much((calls, failures): (u32, u32), settings: &config::Breaker) -> bool {
    calls >= settings.min_calls && f64::from(failures) >= settings.failure_ratio * f64::from(calls)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
