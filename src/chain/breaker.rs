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

use std::time::Duration;

use tokio::time::Instant;

use super::window::Window;
use crate::{config, health::Circuit};

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
    },
    Open {
        until: Instant,
    },
    HalfOpen {
        under_way: u32,
        succeeded: u32,
    },
}

/// The state under which a call was admitted. What it tells counts only as long as that state lasts: a success from
/// before the circuit opened must not close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

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
            State::HalfOpen { under_way, succeeded } => Some(self.probes().saturating_sub(under_way + succeeded)),
        }
    }

    /// Admits a call. Its end has to be told by [`Breaker::end`], or a probe would stay under way.
    pub(super) fn begin(&mut self, now: Instant) -> Result<Epoch, Refusal> {
        self.admits(now)?;
        if let State::Open { .. } = self.state {
            self.enter(State::HalfOpen { under_way: 0, succeeded: 0 });
        }
        if let State::HalfOpen { under_way, .. } = &mut self.state {
            *under_way += 1;
        }
        Ok(self.epoch)
    }

    /// Takes notice of how a call ended.
    pub(super) fn end(&mut self, admitted: Epoch, ending: Ending, now: Instant) {
        if admitted != self.epoch {
            return;
        }
        let probes = self.probes();
        match &mut self.state {
            State::Closed { window, in_a_row } => match ending {
                Ending::Neutral => {}
                Ending::Success => {
                    window.record(false, now);
                    *in_a_row = 0;
                }
                Ending::Failure { retry_after } => {
                    window.record(true, now);
                    *in_a_row = in_a_row.saturating_add(1);
                    if *in_a_row >= self.settings.consecutive_failures
                        || is_too_much(window.totals(now), &self.settings)
                    {
                        self.open(retry_after, now);
                    }
                }
            },
            State::HalfOpen { under_way, succeeded } => {
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
    State::Closed { window: Window::new(settings.window, now), in_a_row: 0 }
}

fn is_too_much((calls, failures): (u32, u32), settings: &config::Breaker) -> bool {
    calls >= settings.min_calls && f64::from(failures) >= settings.failure_ratio * f64::from(calls)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
