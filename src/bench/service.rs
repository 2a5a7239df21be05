//! A service in a process of its own, as `postrider serve` starts it.
//!
//! Owns the process, what its log tells, and its memory as Linux sees it.

use std::{env, fs, io, net::SocketAddr, process::Stdio, time::Duration};

use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::{Instant, timeout, timeout_at},
};

use super::{
    BenchError,
    figures::rate,
    sink::Sink,
    testbed::{Tables, Testbed},
};
use crate::outbox::STATEMENT_TARGET;

/// The longest start.
const LONGEST_START: Duration = Duration::from_secs(30);

/// What a service tells by default, and what it tells when its statements are counted.
const USUAL_LOG: &str = "info";

/// A running service. Dropping it kills the process.
pub(super) struct Service {
    child: Child,
    address: SocketAddr,
    program: String,
}

/// The log of a service that tells every statement.
pub(super) struct Statements(Log);

type Log = Lines<BufReader<ChildStderr>>;

impl Service {
    /// Starts it on these tables, with this one provider.
    pub(super) async fn start(testbed: &Testbed<'_>, tables: &Tables, sink: &Sink) -> Result<Self, BenchError> {
        let (service, mut log) = launch(testbed, tables, sink, USUAL_LOG.to_owned()).await?;
        // Read to its end, so that the service never has to wait for its reader.
        tokio::spawn(async move { line_with(&mut log, |_| false).await });
        Ok(service)
    }

    /// Starts it like [`start`](Self::start), and lets it tell its statements.
    pub(super) async fn start_telling(
        testbed: &Testbed<'_>,
        tables: &Tables,
        sink: &Sink,
    ) -> Result<(Self, Statements), BenchError> {
        let (service, log) = launch(testbed, tables, sink, format!("{USUAL_LOG},{STATEMENT_TARGET}=debug")).await?;
        Ok((service, Statements(log)))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The memory that it has now, in megabytes.
    pub(super) fn resident_megabytes(&self) -> Option<f64> {
        megabytes(self.child.id()?, "VmRSS:")
    }

    /// The most memory that it ever had, in megabytes.
    pub(super) fn peak_megabytes(&self) -> Option<f64> {
        megabytes(self.child.id()?, "VmHWM:")
    }

    /// Kills it.
    pub(super) async fn end(mut self) -> Result<(), BenchError> {
        let failed = |reason| BenchError::Process { what: format!("{} does not end", self.program), reason };
        self.child.kill().await.map_err(failed)
    }
}

impl Statements {
    /// How many there are a second, in that time.
    pub(super) async fn per_second(&mut self, time: Duration) -> f64 {
        let end = Instant::now() + time;
        let mut count = 0;
        let is_statement = |line: &Value| line["target"] == STATEMENT_TARGET;
        while let Ok(Some(_)) = timeout_at(end, line_with(&mut self.0, is_statement)).await {
            count += 1;
        }
        rate(count, time)
    }
}

/// Starts the process and waits until it serves.
async fn launch(
    testbed: &Testbed<'_>,
    tables: &Tables,
    sink: &Sink,
    levels: String,
) -> Result<(Service, Log), BenchError> {
    let program = format!("{} serve", testbed.program.display());
    let failed = |reason: io::Error| BenchError::Process { what: format!("{program} does not start"), reason };
    let mut child = command(testbed, tables, sink, levels).spawn().map_err(failed)?;
    let stderr = child.stderr.take().ok_or_else(|| failed(io::Error::other("it has no standard error")))?;
    let mut log = BufReader::new(stderr).lines();
    let serving = timeout(LONGEST_START, line_with(&mut log, |line| line["message"] == "serving")).await;
    let address = serving.ok().flatten().and_then(|line| line["address"].as_str()?.parse().ok());
    let stalled = || BenchError::Stalled { what: "the start of a service".to_owned(), longest: LONGEST_START };
    let address = address.ok_or_else(stalled)?;
    Ok((Service { child, address, program }, log))
}

/// The service, in an environment without anybody's settings.
fn command(testbed: &Testbed<'_>, tables: &Tables, sink: &Sink, levels: String) -> Command {
    let database = &tables.settings.database;
    let url = database.url.as_ref().map_or("", |url| url.expose_secret());
    let mut command = Command::new(testbed.program);
    command
        .arg("serve")
        .env_clear()
        .env("RUST_LOG", levels)
        .env("POSTRIDER_TELEMETRY__LOG_FORMAT", "json")
        .env("POSTRIDER_SERVER__LISTEN", "127.0.0.1:0")
        .env("POSTRIDER_DATABASE__URL", url)
        .env("POSTRIDER_DATABASE__SCHEMA", &database.schema)
        .env("POSTRIDER_CHAINS__DEFAULT", sink.name())
        .current_dir(env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for (key, value) in sink.environment() {
        command.env(format!("POSTRIDER_PROVIDERS__{}__{key}", sink.name().to_ascii_uppercase()), value);
    }
    command
}

/// Reads on to the first line that is like that; `None` if the log ends before.
async fn line_with(log: &mut Log, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    while let Ok(Some(line)) = log.next_line().await {
        if let Ok(line) = serde_json::from_str(&line)
            && is_wanted(&line)
        {
            return Some(line);
        }
    }
    None
}

/// A line of a process's status in Linux's `/proc`.
fn megabytes(pid: u32, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}
