//! When a provider's circuit opens and closes: the settings.
//!
//! Owns the figures; the breaker is [`crate::chain`]'s.

use std::time::Duration;

use super::section::{Section, Visitor};

/// When a provider's circuit opens and closes.
#[derive(Clone, Debug)]
pub struct Breaker {
    /// The part of calls that must have failed for it to open, above 0 and up to 1; 0.5 by default. Lower: it opens
    /// sooner, also at trouble that would have passed.
    pub failure_ratio: f64,
    /// The time over which calls are counted, 30 s by default. Longer: it remembers failures longer.
    pub window: Duration,
    /// The least number of calls in the window before it can open, 5 by default. More: a few failures at a quiet time
    /// do not open it, and it opens later.
    pub min_calls: u32,
    /// How many calls must fail one after another for it to open whatever the ratio, 5 by default: a provider that falls
    /// silent is left at once, however well it did before. More: it opens later under load.
    pub consecutive_failures: u32,
    /// A call that took longer counts as a failure; 20 s by default.
    pub slow_call: Duration,
    /// How long it stays open the first time, 5 s by default; doubled each time a probe fails.
    pub open_for: Duration,
    /// The longest it stays open, 5 min by default, unless the provider named a later time.
    pub open_longest: Duration,
    /// How many calls may be under way at once while it is half-open, 2 by default; it closes when as many succeeded.
    pub probes: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            failure_ratio: 0.5,
            window: Duration::from_secs(30),
            min_calls: 5,
            consecutive_failures: 5,
            slow_call: Duration::from_secs(20),
            open_for: Duration::from_secs(5),
            open_longest: Duration::from_secs(300),
            probes: 2,
        }
    }
}

impl Section for Breaker {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        let (hour, day) = (s(60 * 60), s(24 * 60 * 60));
        Self {
            failure_ratio: v.within("failure_ratio", self.failure_ratio, 0.01..=1.0),
            window: v.within("window", self.window, ms(100)..=hour),
            min_calls: v.within("min_calls", self.min_calls, 1..=10_000),
            consecutive_failures: v.within("consecutive_failures", self.consecutive_failures, 1..=10_000),
            slow_call: v.within("slow_call", self.slow_call, ms(1)..=hour),
            open_for: v.within("open_for", self.open_for, ms(10)..=day),
            open_longest: v.within("open_longest", self.open_longest, ms(10)..=7 * day),
            probes: v.within("probes", self.probes, 1..=100),
        }
    }
}
