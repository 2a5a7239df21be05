//! `idle`: statements a second and memory of a service that has nothing to do.
//!
//! Owns the process: a service of its own, as `postrider serve` starts it, whose log tells its statements.

use std::{env, fs, process::Stdio, time::Duration};

use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::{Instant, timeout, timeout_at},
};

use super::Scenario;
use crate::{
    bench::{
        BenchError, Figure, Line, Unit,
        figures::rate,
        testbed::{Tables, Testbed},
    },
    outbox::STATEMENT_TARGET,
};

/// The goals.
const STATEMENTS_AT_MOST: f64 = 0.5;
const MEGABYTES_AT_MOST: f64 = 50.0;

/// The longest start, and how long it is then left alone before anything is counted.
const LONGEST_START: Duration = Duration::from_secs(30);
const SETTLING: Duration = Duration::from_secs(3);

pub(super) async fn run(testbed: &Testbed<'_>) -> Result<Vec<Line>, BenchError> {
    let tables = testbed.tables().await?;
    let line = watch(testbed, &tables).await;
    tables.remove().await?;
    Ok(vec![line?])
}

async fn watch(testbed: &Testbed<'_>, tables: &Tables) -> Result<Line, BenchError> {
    let failed = |what: &str| {
        let what = format!("{} serve {what}", testbed.program.display());
        move |reason| BenchError::Process { what, reason }
    };
    let mut child = command(testbed, tables).spawn().map_err(failed("does not start"))?;
    let mut log = Log::of(&mut child).ok_or(BenchError::TooFew("lines of the log"))?;
    let started = timeout(LONGEST_START, log.line_with(|line| line["message"] == "serving"));
    if !matches!(started.await, Ok(true)) {
        return Err(BenchError::Stalled { what: "the start of a service".to_owned(), longest: LONGEST_START });
    }
    log.count_statements(SETTLING).await;
    let statements = rate(log.count_statements(testbed.scale.idle).await, testbed.scale.idle);
    let resident = child.id().and_then(resident_megabytes);
    child.kill().await.map_err(failed("does not end"))?;

    let mut measured = vec![Figure::new("statements", statements, Unit::PerSecond).at_most(STATEMENTS_AT_MOST)];
    // Only Linux tells it.
    measured.extend(resident.map(|mb| Figure::new("memory", mb, Unit::Megabytes).at_most(MEGABYTES_AT_MOST)));
    Ok(Line { name: Scenario::Idle.as_str(), case: "1 process".to_owned(), measured, ..Line::default() })
}

/// The service, in an environment without anybody's settings.
fn command(testbed: &Testbed<'_>, tables: &Tables) -> Command {
    let database = &tables.settings.database;
    let url = database.url.as_ref().map_or("", |url| url.expose_secret());
    let mut command = Command::new(testbed.program);
    command
        .arg("serve")
        .env_clear()
        .env("RUST_LOG", format!("info,{STATEMENT_TARGET}=debug"))
        .env("POSTRIDER_TELEMETRY__LOG_FORMAT", "json")
        .env("POSTRIDER_SERVER__LISTEN", "127.0.0.1:0")
        .env("POSTRIDER_DATABASE__URL", url)
        .env("POSTRIDER_DATABASE__SCHEMA", &database.schema)
        // Nobody listens there, and nothing is ever sent to it.
        .env("POSTRIDER_PROVIDERS__NOBODY__KIND", "http")
        .env("POSTRIDER_PROVIDERS__NOBODY__URL", "http://127.0.0.1:9/")
        .env("POSTRIDER_CHAINS__DEFAULT", "nobody")
        .current_dir(env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// What the service says.
struct Log(Lines<BufReader<ChildStderr>>);

impl Log {
    fn of(child: &mut Child) -> Option<Self> {
        Some(Self(BufReader::new(child.stderr.take()?).lines()))
    }

    /// Reads on until a line is like that; `false` if the log ends before.
    async fn line_with(&mut self, is_wanted: impl Fn(&Value) -> bool) -> bool {
        while let Ok(Some(line)) = self.0.next_line().await {
            if serde_json::from_str(&line).is_ok_and(|line| is_wanted(&line)) {
                return true;
            }
        }
        false
    }

    /// How many statements there are in that time.
    async fn count_statements(&mut self, time: Duration) -> u64 {
        let end = Instant::now() + time;
        let mut count = 0;
        while let Ok(true) = timeout_at(end, self.line_with(|line| line["target"] == STATEMENT_TARGET)).await {
            count += 1;
        }
        count
    }
}

/// The memory that a process really has, from Linux's `/proc`.
fn resident_megabytes(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}
