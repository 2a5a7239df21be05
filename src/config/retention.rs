//! How long messages are kept.

use std::time::Duration;

use serde::Deserialize;

/// How long messages are kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// How long a message is kept after it was finished.
    #[serde(with = "humantime_serde")]
    pub finished: Duration,
    /// How long a message that waits for a person is kept.
    #[serde(with = "humantime_serde")]
    pub unresolved: Duration,
    /// For how many days ahead the tables are made.
    pub days_ahead: u32,
    /// How often the clean-up looks.
    #[serde(with = "humantime_serde")]
    pub interval: Duration,
    /// How many messages one statement of the clean-up removes at most.
    pub batch: u32,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { finished: 7 * day, unresolved: 90 * day, days_ahead: 7, interval: Duration::from_secs(60), batch: 1000 }
    }
}
