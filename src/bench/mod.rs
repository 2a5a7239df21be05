//! How fast Postrider is on this machine, held against what the machine itself can do, measured in the same run.
//!
//! Owns load, floors, scenarios and the table of results. A goal that is missed is a line of the table, not an error.
//!
//! Load, Postrider and the providers it sends to run in one process where a case does not say otherwise, in front of a
//! Postgres of its own: they share the cores, and so do the floors. Each scenario has tables of its own, which are
//! dropped after it; a run that is interrupted on a database that was given leaves its last schemas, `postrider_bench_…`,
//! behind.

mod cost;
mod error;
mod figures;
mod floor;
mod load;
mod mail;
mod report;
mod scenario;
mod service;
mod sink;
mod testbed;

use std::{path::PathBuf, thread, time::Duration};

use secrecy::SecretString;

pub use error::BenchError;
pub use report::{Figure, Line, Report, Unit};
pub use scenario::{Scenario, UnknownScenario};
use testbed::Testbed;

/// Told what is done next.
pub type Progress = dyn Fn(&str) + Send + Sync;

/// What is measured, and on what.
pub struct Options {
    /// The scenarios, in their order.
    pub scenarios: Vec<Scenario>,
    /// How much of each.
    pub scale: Scale,
    /// A database to use, in schemas of the benchmark's own; without it a private Postgres is started.
    pub database_url: Option<SecretString>,
    /// The `postrider` program, for what is measured of a process.
    pub program: PathBuf,
}

/// How much of everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// How many messages one measurement takes.
    pub messages: u64,
    /// How many callers there are at once.
    pub callers: usize,
    /// How often a rate is measured; the median counts.
    pub repeats: u32,
    /// Calls a second while a provider fails.
    pub failover_rate: f64,
    /// How long the load lasts before, and after, a provider fails.
    pub failover_phase: Duration,
    /// How long a provider that fell silent is waited for.
    pub silence: Duration,
    /// The pause after an unknown outcome.
    pub pause: Duration,
    /// Over what time the breaker counts.
    pub breaker_window: Duration,
    /// How long an idle process is watched.
    pub idle: Duration,
    /// How many messages wait while a claim is timed; it is held against 20,000, or as many if that is less.
    pub backlog: u64,
    /// How often a claim is timed.
    pub claims: u32,
    /// How long somebody's transaction stays open under load.
    pub held: Duration,
    /// How many messages the day has that is retired.
    pub retired: u64,
    /// How long the load lasts before the day is retired, and how long a reader's transaction then stays open.
    pub retention_phase: Duration,
    /// How many messages of one client wait while another sends single ones.
    pub waiting: u64,
    /// How many single ones.
    pub singles: u64,
    /// How many messages have a large attachment.
    pub large: u64,
}

impl Scale {
    /// What figures to rely on take: half an hour or so.
    pub fn full() -> Self {
        Self {
            messages: 20_000,
            callers: 64,
            repeats: 3,
            failover_rate: 200.0,
            failover_phase: Duration::from_secs(10),
            silence: Duration::from_secs(2),
            pause: Duration::from_secs(2),
            breaker_window: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            backlog: 3_000_000,
            claims: 200,
            held: Duration::from_secs(60),
            retired: 1_000_000,
            retention_phase: Duration::from_secs(20),
            waiting: 100_000,
            singles: 200,
            large: 500,
        }
    }

    /// What a first impression takes: less than five minutes.
    pub fn quick() -> Self {
        Self {
            messages: 1_000,
            failover_phase: Duration::from_secs(2),
            silence: Duration::from_secs(1),
            pause: Duration::from_secs(1),
            breaker_window: Duration::from_secs(5),
            idle: Duration::from_secs(6),
            backlog: 200_000,
            claims: 60,
            held: Duration::from_secs(4),
            retired: 100_000,
            retention_phase: Duration::from_secs(4),
            waiting: 20_000,
            singles: 40,
            large: 20,
            ..Self::full()
        }
    }
}

/// Runs the scenarios one after the other. One that fails is a line of the report like the others.
///
/// # Errors
///
/// When there is no database to run on.
pub async fn run(options: &Options, progress: &Progress) -> Result<Report, BenchError> {
    let testbed = Testbed::new(options, progress).await?;
    let mut report = Report { conditions: conditions(options), lines: Vec::new() };
    let tables = testbed.tables().await?;
    report.conditions.push(format!("Postgres {}", tables.outbox.server_version().await?));
    tables.remove().await?;
    for scenario in &options.scenarios {
        testbed.say(&format!("{scenario}: {}", scenario.about()));
        let lines = scenario.run(&testbed).await.unwrap_or_else(|error| vec![scenario.failed(&error)]);
        report.lines.extend(lines);
    }
    Ok(report)
}

/// On what the figures depend.
fn conditions(options: &Options) -> Vec<String> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let build = if cfg!(debug_assertions) { "debug build: its figures tell nothing" } else { "release build" };
    let postgres = match options.database_url {
        Some(_) => "a Postgres that was given",
        None => "a private Postgres with fsync",
    };
    let scale = &options.scale;
    vec![
        format!("{cores} cores"),
        build.to_owned(),
        format!("{} messages a measurement, median of {}", scale.messages, scale.repeats),
        "load, service and sinks in one process where not said otherwise".to_owned(),
        postgres.to_owned(),
    ]
}
