//! `postrider bench`.

use std::{env, time::Duration};

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use secrecy::SecretString;

use super::{Exit, Failure, serve::StopSignals};
use crate::{
    bench::{self, BenchError, Options, Scale, Scenario},
    config::Telemetry,
    telemetry,
};

/// Measure how fast this build is on this machine, against what the machine itself can do.
#[derive(Debug, Args)]
pub(super) struct Bench {
    /// What to measure; without it everything.
    #[arg(value_name = "SCENARIO", value_parser = scenario_parser())]
    scenarios: Vec<Scenario>,
    /// Measure less of each: a first impression in less than five minutes.
    #[arg(long)]
    quick: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// How many messages one measurement takes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(20..=900_000))]
    messages: Option<u64>,
    /// How many callers there are at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    callers: Option<u16>,
    /// How many messages wait while a claim is timed (backlog).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=20_000_000))]
    backlog: Option<u64>,
    /// How many seconds somebody's transaction stays open (held).
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    held: Option<u64>,
    /// How many messages the day has that is retired (retention).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..=20_000_000))]
    retired: Option<u64>,
    /// How many messages of another client wait (fairness).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=900_000))]
    waiting: Option<u64>,
    /// How many messages have an attachment of 5 MB (large).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    large: Option<u64>,
    /// A database to measure on, in schemas of its own that are dropped again. Without it a private Postgres is started.
    #[arg(long, value_name = "URL")]
    database_url: Option<SecretString>,
}

impl Bench {
    #[allow(clippy::print_stdout, clippy::print_stderr)]
    pub(super) async fn run(&self) -> Result<Exit, Failure> {
        // As a service has it: spans cost something too.
        let telemetry = telemetry::init(&Telemetry::default()).map_err(|error| Failure::Usage(error.to_string()))?;
        let mut signals = StopSignals::new()?;
        let options = self.options()?;
        let report = tokio::select! {
            report = bench::run(&options, &|step| eprintln!("{step} …")) => report?,
            () = signals.received() => return Err(Failure::Other("interrupted".to_owned())),
        };
        if self.json {
            println!("{:#}", report.to_json());
        } else {
            print!("{report}");
        }
        telemetry.shutdown().await;
        Ok(Exit::Done)
    }

    fn options(&self) -> Result<Options, Failure> {
        let mut scale = if self.quick { Scale::quick() } else { Scale::full() };
        scale.messages = self.messages.unwrap_or(scale.messages);
        scale.callers = self.callers.map_or(scale.callers, usize::from);
        scale.backlog = self.backlog.unwrap_or(scale.backlog);
        scale.held = self.held.map_or(scale.held, Duration::from_secs);
        scale.retired = self.retired.unwrap_or(scale.retired);
        scale.waiting = self.waiting.unwrap_or(scale.waiting);
        scale.large = self.large.unwrap_or(scale.large);
        let all = || Scenario::ALL.to_vec();
        Ok(Options {
            scenarios: if self.scenarios.is_empty() { all() } else { self.scenarios.clone() },
            scale,
            database_url: self.database_url.clone(),
            program: env::current_exe()
                .map_err(|error| Failure::Other(format!("where this program is cannot be told: {error}")))?,
        })
    }
}

fn scenario_parser() -> impl TypedValueParser<Value = Scenario> {
    PossibleValuesParser::new(Scenario::ALL.map(Scenario::as_str)).try_map(|word| word.parse::<Scenario>())
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        Self::Other(error.to_string())
    }
}
