//! How long messages are kept: the settings.
//!
//! Owns the figures of the clean-up.

use std::time::Duration;

use super::section::{Section, Visitor};

/// How long messages are kept.
#[derive(Clone, Debug)]
pub struct Retention {
    /// How long a message is kept after it was finished, 7 days by default. Messages go by whole days (of UTC): those
    /// accepted in a day, and finished in that or another, once the last of these days has been over for that long.
    /// Longer: more disk, and status and history can be asked for longer. An idempotency key is recognised as long as
    /// its message is kept.
    pub finished: Duration,
    /// How long a message that waits for a person is kept, 90 days by default.
    pub unresolved: Duration,
    /// For how many days ahead the tables are made, 7 by default: for so long may every process be stopped or without
    /// the right to create tables before messages are refused.
    pub days_ahead: u32,
    /// How often the clean-up looks, 1 min by default.
    pub interval: Duration,
    /// How many messages or keys one statement of the clean-up removes at most, 1,000 by default; and how many messages
    /// of a day may always be copied for the rest of it to be dropped, be they most of it. More: fewer statements,
    /// longer transactions.
    pub batch: u32,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { finished: 7 * day, unresolved: 90 * day, days_ahead: 7, interval: Duration::from_secs(60), batch: 1000 }
    }
}

impl Section for Retention {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let s = Duration::from_secs;
        let (day, year) = (s(24 * 60 * 60), s(366 * 24 * 60 * 60));
        Self {
            finished: v.within("finished", self.finished, s(1)..=10 * year),
            unresolved: v.within("unresolved", self.unresolved, s(1)..=10 * year),
            days_ahead: v.within("days_ahead", self.days_ahead, 1..=60),
            interval: v.within("interval", self.interval, Duration::from_millis(100)..=day),
            batch: v.within("batch", self.batch, 1..=100_000),
        }
    }
}
