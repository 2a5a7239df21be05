//! Logs, traces and metrics: how they are set up, exported and closed, and the spans that tie a message's attempts to its
//! caller.
//!
//! Owns no decision of the service, and nothing of a message but its id and its trace. No address, body, header value or
//! secret is in a span or a log line.
//!
//! # Where traces and metrics go
//!
//! Spans and metrics are exported over OTLP (gRPC) when `OTEL_EXPORTER_OTLP_ENDPOINT` is set, one of them alone when
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` is; headers, timeout, compression,
//! sampler, resource, interval and batch figures come from OpenTelemetry's own variables as well. `OTEL_SDK_DISABLED=true`,
//! `OTEL_TRACES_EXPORTER=none` and `OTEL_METRICS_EXPORTER=none` turn the export off, `OTEL_PROPAGATORS=none` turns off
//! the reading and writing of trace headers. Whatever the collector does, or the variables say, the mail goes on:
//! export runs on a thread of its own, spans that find no room are dropped, and what cannot be honoured is a warning.

mod context;
mod counters;
mod export;
mod gauges;
mod noise;
mod panics;
mod setup;
mod span;

pub use context::{accept_context, trace_id};
pub use counters::count_failover;
pub use export::Guard;
pub use gauges::OutboxGauges;
pub use setup::{InitError, init};
pub use span::{attempt_span, end_attempt, note_idle_round, note_skipped, server_span, traceparent};
