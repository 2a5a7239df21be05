//! Logs and traces.

use serde::Deserialize;

/// Logs and traces. Where traces go is said by the standard `OTEL_…` environment variables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// `human` or `json`.
    pub log_format: LogFormat,
    /// Which lines are written, for example `info` or `postrider=debug,info`.
    pub log_level: String,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { log_format: LogFormat::Human, log_level: "info".into() }
    }
}
