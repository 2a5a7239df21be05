//! How messages are claimed, sent and tried again.

use std::time::Duration;

use serde::Deserialize;

/// How messages are claimed and sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dispatch {
    /// How many messages are sent at once by one process.
    pub concurrency: usize,
    /// How many messages one claim takes at most.
    pub claim_size: usize,
    /// How long the dispatcher waits between two looks while there is work.
    #[serde(with = "humantime_serde")]
    pub poll_shortest: Duration,
    /// How long it waits when nothing is due. A message accepted by this process is seen at once; one accepted by
    /// another process after this time at the latest.
    #[serde(with = "humantime_serde")]
    pub poll_longest: Duration,
    /// How long a message belongs to a dispatcher that says nothing. Longer: a crashed process's messages wait longer.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    /// How often a lease is renewed while a send lasts.
    #[serde(with = "humantime_serde")]
    pub lease_renewal: Duration,
    /// The longest one attempt may take.
    #[serde(with = "humantime_serde")]
    pub attempt_timeout: Duration,
    /// How many outcomes one settle writes at most.
    pub settle_size: usize,
    /// How long an outcome waits for others to be written together.
    #[serde(with = "humantime_serde")]
    pub settle_delay: Duration,
    /// How long a process that is told to stop lets sends finish.
    #[serde(with = "humantime_serde")]
    pub drain_limit: Duration,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self {
            concurrency: 128,
            claim_size: 100,
            poll_shortest: Duration::from_millis(50),
            poll_longest: Duration::from_secs(2),
            lease: Duration::from_secs(30),
            lease_renewal: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(20 * 60),
            settle_size: 100,
            settle_delay: Duration::from_millis(2),
            drain_limit: Duration::from_secs(30),
        }
    }
}

/// How often and how long a message is tried.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// How many rounds through the chain are spent on a message before a person gets it.
    pub max_rounds: u32,
    /// The pause after the first round; after round n it is n times this, if `growth` is `linear`.
    #[serde(with = "humantime_serde")]
    pub pause: Duration,
    /// How the pause grows.
    pub growth: Growth,
    /// The longest pause.
    #[serde(with = "humantime_serde")]
    pub ceiling: Duration,
    /// How far a pause is moved at random, as a part of it, so that what failed together is not tried together.
    pub jitter: f64,
    /// How long a message may wait in all before a person gets it.
    #[serde(with = "humantime_serde")]
    pub longest_wait: Duration,
}

/// How the pause grows.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// Round n is followed by n times the pause.
    Linear,
    /// Each pause is twice the one before.
    Exponential,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_rounds: 10,
            pause: Duration::from_secs(60),
            growth: Growth::Linear,
            ceiling: Duration::from_secs(60 * 60),
            jitter: 0.1,
            longest_wait: Duration::from_secs(3 * 24 * 60 * 60),
        }
    }
}
