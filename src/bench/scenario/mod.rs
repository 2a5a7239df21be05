//! The scenarios, by name.
//!
//! Owns the list; each is a file of its own.

mod accept;
mod drain;
mod end_to_end;
mod failover;
mod idle;
mod latency;

use std::{fmt, str::FromStr};

use super::{BenchError, Line, testbed::Testbed};

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Calls answered a second.
    Accept,
    /// Messages a second from the call to SUCCESS_SENT.
    EndToEnd,
    /// Messages a second out of a backlog.
    Drain,
    /// From the answer to the arrival at the provider.
    Latency,
    /// What a provider that falls silent costs.
    Failover,
    /// What an idle process costs.
    Idle,
}

/// A word that names no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such scenario: {0:?}")]
pub struct UnknownScenario(pub String);

impl Scenario {
    /// Every scenario, in the order in which they are run.
    pub const ALL: [Scenario; 6] =
        [Scenario::Accept, Scenario::EndToEnd, Scenario::Drain, Scenario::Latency, Scenario::Failover, Scenario::Idle];

    /// Its name on the command line and in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Scenario::Accept => "accept",
            Scenario::EndToEnd => "end-to-end",
            Scenario::Drain => "drain",
            Scenario::Latency => "latency",
            Scenario::Failover => "failover",
            Scenario::Idle => "idle",
        }
    }

    /// What is measured, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Scenario::Accept => "SendEmail calls answered a second",
            Scenario::EndToEnd => "messages a second from the call to SUCCESS_SENT",
            Scenario::Drain => "messages a second out of a backlog",
            Scenario::Latency => "from the answer to the arrival at the provider, at half load",
            Scenario::Failover => "a provider falls silent under load",
            Scenario::Idle => "statements and memory of an idle process",
        }
    }

    pub(super) async fn run(self, testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
        match self {
            Scenario::Accept => accept::run(testbed).await,
            Scenario::EndToEnd => end_to_end::run(testbed).await,
            Scenario::Drain => drain::run(testbed).await,
            Scenario::Latency => latency::run(testbed).await,
            Scenario::Failover => failover::run(testbed).await,
            Scenario::Idle => idle::run(testbed).await,
        }
    }

    /// The line of a scenario that came to no figures.
    pub(super) fn failed(self, error: &BenchError) -> Line {
        Line { name: self.as_str(), failure: Some(error.to_string()), ..Line::default() }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.as_str() == word);
        found.ok_or_else(|| UnknownScenario(word.to_owned()))
    }
}
