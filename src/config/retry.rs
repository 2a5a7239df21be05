//! How often and how long a message is tried: the settings.
//!
//! Owns the figures; the decision is [`crate::delivery`]'s.

use std::time::Duration;

use super::{
    section::{Section, Visitor},
    value::Choice,
};

/// How often and how long a message is tried.
#[derive(Clone, Debug)]
pub struct Retry {
    /// How many rounds through the chain are spent on a message before a person gets it, 10 by default. More: longer
    /// outages are outlasted, and a person hears later of what will not pass.
    pub max_rounds: u32,
    /// The pause after the first round, 1 min by default; after round n it is n times this if `growth` is `linear`.
    /// Shorter: messages go out sooner after a short outage, and a provider in trouble is asked more often.
    pub pause: Duration,
    /// How the pause grows, `linear` by default.
    pub growth: Growth,
    /// The longest pause, 1 h by default.
    pub ceiling: Duration,
    /// How far a pause is moved at random, as a part of it, 0.1 by default: 10 min become anything from 9 to 11. More:
    /// what failed together is tried again further apart.
    pub jitter: f64,
    /// How long a message may wait in all before a person gets it, 3 days by default, whatever it waits for.
    pub longest_wait: Duration,
}

/// How the pause grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Growth {
    /// Round n is followed by n times the pause.
    Linear,
    /// Each pause is twice the one before.
    Exponential,
}

impl Choice for Growth {
    const WORDS: &'static [(Self, &'static str)] = &[(Growth::Linear, "linear"), (Growth::Exponential, "exponential")];
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

impl Section for Retry {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            max_rounds: v.within("max_rounds", self.max_rounds, 1..=1000),
            pause: v.within("pause", self.pause, Duration::from_millis(10)..=day),
            growth: v.any("growth", self.growth),
            ceiling: v.within("ceiling", self.ceiling, Duration::from_millis(10)..=7 * day),
            jitter: v.within("jitter", self.jitter, 0.0..=1.0),
            longest_wait: v.within("longest_wait", self.longest_wait, Duration::from_secs(1)..=90 * day),
        }
    }
}
