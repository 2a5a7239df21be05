//! The settings of logs and traces.
//!
//! Owns what is not in OpenTelemetry's own environment variables.

use std::time::Duration;

use super::{
    section::{Section, Visitor},
    value::Choice,
};

/// Logs and traces. Where traces go is said by the standard `OTEL_…` environment variables.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// `human` (the default) or `json`.
    pub log_format: LogFormat,
    /// Which lines are written, `info` by default; for example `warn` or `info,postrider::chain=debug`. The variable
    /// `RUST_LOG` overrides it.
    pub log_level: String,
    /// How long a process that stops waits for the collector to take the last spans, 5 s by default. Longer: fewer
    /// spans are lost when the collector is slow, and a slower stop when it is silent.
    pub flush_limit: Duration,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum LogFormat {
    /// For a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

impl Choice for LogFormat {
    const WORDS: &'static [(Self, &'static str)] = &[(LogFormat::Human, "human"), (LogFormat::Json, "json")];
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log_format: LogFormat::Human, log_level: "info".into(), flush_limit: Duration::from_secs(5) }
    }
}

impl Section for Telemetry {
    fn visit(self, v: &mut impl Visitor) -> Self {
        Self {
            log_format: v.any("log_format", self.log_format),
            log_level: v.any("log_level", self.log_level),
            flush_limit: v.within("flush_limit", self.flush_limit, Duration::ZERO..=Duration::from_secs(60)),
        }
    }
}
