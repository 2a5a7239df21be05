//! The scenarios, by name.
//!
//! Owns the list; each is a file of its own.

mod accept;
mod backlog;
mod drain;
mod end_to_end;
mod failover;
mod fairness;
mod floors;
mod held;
mod idle;
mod large;
mod latency;
mod planner;
mod retention;
mod sends;

use std::{fmt, str::FromStr};

use futures_util::future::BoxFuture;

use super::{BenchError, Line, testbed::Testbed};

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// What the database does at most.
    Floors,
    /// Calls answered a second.
    Accept,
    /// Messages a second from the call to SUCCESS_SENT.
    EndToEnd,
    /// Messages a second that the SMTP adapter hands over.
    Sends,
    /// Messages a second out of a backlog.
    Drain,
    /// From the answer to the arrival at the provider.
    Latency,
    /// How long a claim takes while millions wait.
    Backlog,
    /// The same as end to end under somebody's long transaction.
    Held,
    /// The same as end to end after the empty tables were analysed.
    Planner,
    /// What retiring a day costs those who call.
    Retention,
    /// A client's single message beside another's many.
    Fairness,
    /// Memory for large messages.
    Large,
    /// What an idle process costs.
    Idle,
    /// What a provider that falls silent costs.
    Failover,
}

/// A word that names no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such scenario: {0:?}")]
pub struct UnknownScenario(pub String);

impl Scenario {
    /// Every scenario, in the order in which they are run.
    pub const ALL: [Scenario; 14] = [
        Scenario::Floors,
        Scenario::Accept,
        Scenario::EndToEnd,
        Scenario::Sends,
        Scenario::Drain,
        Scenario::Latency,
        Scenario::Backlog,
        Scenario::Held,
        Scenario::Planner,
        Scenario::Retention,
        Scenario::Fairness,
        Scenario::Large,
        Scenario::Idle,
        Scenario::Failover,
    ];

    /// Its name on the command line and in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Scenario::Floors => "floors",
            Scenario::Accept => "accept",
            Scenario::EndToEnd => "end-to-end",
            Scenario::Sends => "sends",
            Scenario::Drain => "drain",
            Scenario::Latency => "latency",
            Scenario::Backlog => "backlog",
            Scenario::Held => "held",
            Scenario::Planner => "planner",
            Scenario::Retention => "retention",
            Scenario::Fairness => "fairness",
            Scenario::Large => "large",
            Scenario::Idle => "idle",
            Scenario::Failover => "failover",
        }
    }

    /// What is measured, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Scenario::Floors => "commits, records and rows a second that the database does at most",
            Scenario::Accept => "SendEmail calls answered a second",
            Scenario::EndToEnd => "messages a second from the call to SUCCESS_SENT",
            Scenario::Sends => "messages a second that the SMTP adapter hands over",
            Scenario::Drain => "messages a second out of a backlog",
            Scenario::Latency => "from the answer to the arrival at the provider, at half load",
            Scenario::Backlog => "how long a claim takes while many messages wait",
            Scenario::Held => "messages a second while somebody's transaction stays open",
            Scenario::Planner => "messages a second after the empty tables were analysed",
            Scenario::Retention => "how long calls take while a day is retired",
            Scenario::Fairness => "a client's single message while another client has many waiting",
            Scenario::Large => "memory for messages with large attachments",
            Scenario::Idle => "statements and memory of an idle process",
            Scenario::Failover => "a provider falls silent under load",
        }
    }

    /// Measures it. Boxed: the scenarios' own futures are large.
    pub(super) fn run<'a>(self, testbed: &'a Testbed<'_>) -> BoxFuture<'a, Result<Vec<Line>, BenchError>> {
        match self {
            Scenario::Floors => Box::pin(floors::run(testbed)),
            Scenario::Accept => Box::pin(accept::run(testbed)),
            Scenario::EndToEnd => Box::pin(end_to_end::run(testbed)),
            Scenario::Sends => Box::pin(sends::run(testbed)),
            Scenario::Drain => Box::pin(drain::run(testbed)),
            Scenario::Latency => Box::pin(latency::run(testbed)),
            Scenario::Backlog => Box::pin(backlog::run(testbed)),
            Scenario::Held => Box::pin(held::run(testbed)),
            Scenario::Planner => Box::pin(planner::run(testbed)),
            Scenario::Retention => Box::pin(retention::run(testbed)),
            Scenario::Fairness => Box::pin(fairness::run(testbed)),
            Scenario::Large => Box::pin(large::run(testbed)),
            Scenario::Idle => Box::pin(idle::run(testbed)),
            Scenario::Failover => Box::pin(failover::run(testbed)),
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
