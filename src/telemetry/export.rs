//! The export of spans: whether there is one, how it is made, and how it ends.
//!
//! Owns the collector's connection and the thread it lives on. Nothing here ever makes a message wait.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::{Resource, resource::EnvResourceDetector, trace::SdkTracerProvider};
use tokio::runtime::{self, Runtime};

/// What OpenTelemetry's variables ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Whether spans are exported.
    pub(super) export: bool,
    /// Whether trace headers are read and written.
    pub(super) propagate: bool,
    /// What they ask for and do not get.
    pub(super) warnings: Vec<String>,
}

impl Wish {
    /// Reads those variables that the OpenTelemetry crates do not honour themselves.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).map(|value| value.trim().to_lowercase()).filter(|v| !v.is_empty());
        let mut warnings = Vec::new();
        let endpoint = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        let wanted = endpoint.into_iter().any(|name| variable(name).is_some())
            && variable("OTEL_SDK_DISABLED").as_deref() != Some("true");
        let exporters = words(variable("OTEL_TRACES_EXPORTER"), "otlp");
        let protocol = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]
            .into_iter()
            .find_map(|name| variable(name).map(|value| (name, value)))
            .filter(|(_, value)| value != "grpc");
        let export = wanted && exporters.iter().any(|word| word == "otlp");
        if wanted {
            refuse("OTEL_TRACES_EXPORTER", &exporters, &["otlp", "none"], &mut warnings);
        }
        if let (true, Some((name, value))) = (export, &protocol) {
            warnings.push(format!("{name}={value}: only grpc is spoken, so no spans are exported"));
        }
        let propagators = words(variable("OTEL_PROPAGATORS"), "tracecontext");
        refuse("OTEL_PROPAGATORS", &propagators, &["tracecontext", "baggage", "none"], &mut warnings);
        let propagate = propagators.iter().any(|word| word == "tracecontext");
        Self { export: export && protocol.is_none(), propagate, warnings }
    }
}

fn words(value: Option<String>, default: &str) -> Vec<String> {
    value.as_deref().unwrap_or(default).split(',').map(|word| word.trim().to_owned()).collect()
}

fn refuse(name: &str, words: &[String], known: &[&str], warnings: &mut Vec<String>) {
    for word in words.iter().filter(|word| !known.contains(&word.as_str())) {
        warnings.push(format!("{name}: {word} is not supported and is ignored"));
    }
}

/// The export under way.
pub(super) struct Pipeline {
    pub(super) provider: SdkTracerProvider,
    /// Only held.
    _runtime: OwnRuntime,
}

/// The runtime that the collector's connection lives on: one of its own, so that the last spans can be handed over while
/// the service's runtime is busy, or already gone.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // Simply dropped it would wait for its thread, which is forbidden to whoever runs on another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Pipeline {
    /// Makes the export that the environment describes. The connection is made when the first spans are due.
    pub(super) fn start() -> Result<Self, Box<dyn std::error::Error>> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .thread_name("otlp")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let runtime = OwnRuntime(Some(runtime));
        let _inside = handle.enter();
        let exporter = SpanExporter::builder().with_tonic().build()?;
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        Ok(Self { provider, _runtime: runtime })
    }

    /// Hands over what is left, within that time.
    fn close(self, limit: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(limit) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// Who we are: `postrider` of this version, unless the environment has it otherwise.
fn resource() -> Resource {
    let name = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let ours = Resource::builder().with_attributes([
        KeyValue::new("service.name", "postrider"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ]);
    let asked_for = ours.with_detector(Box::new(EnvResourceDetector::new()));
    match name {
        Some(name) => asked_for.with_service_name(name).build(),
        None => asked_for.build(),
    }
}

/// Keeps the export going. To be held as long as the service runs; when it goes, the last spans are handed over, for as
/// long as `flush_limit` of the settings allows.
#[must_use = "without it the export ends at once"]
pub struct Guard {
    pipeline: Option<Pipeline>,
    limit: Duration,
}

impl Guard {
    pub(super) fn new(pipeline: Option<Pipeline>, limit: Duration) -> Self {
        Self { pipeline, limit }
    }

    /// Hands over the last spans, without holding up the runtime. To be called last, when nothing makes spans any more.
    pub async fn shutdown(mut self) {
        let (pipeline, limit) = (self.pipeline.take(), self.limit);
        if let Some(pipeline) = pipeline
            && let Err(error) = tokio::task::spawn_blocking(move || pipeline.close(limit)).await
        {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(pipeline) = self.pipeline.take() {
            pipeline.close(self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(variables: &[(&str, &str)]) -> Wish {
        Wish::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");

    #[test]
    fn spans_are_exported_when_an_endpoint_is_named_and_nothing_speaks_against_it() {
        for (variables, export) in [
            (&[][..], false),
            (&[ENDPOINT], true),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317")], true),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], false),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")], false),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "false")], true),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], false),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "otlp")], true),
            (&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], true),
        ] {
            assert_eq!(wish(variables), Wish { export, propagate: true, warnings: vec![] }, "{variables:?}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_a_warning_and_no_failure() {
        let wish = wish(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), ("OTEL_PROPAGATORS", "b3")]);
        assert_eq!((wish.export, wish.propagate), (false, false));
        assert_eq!(
            wish.warnings,
            [
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: only grpc is spoken, so no spans are exported",
                "OTEL_PROPAGATORS: b3 is not supported and is ignored",
            ]
        );
    }

    #[test]
    fn trace_headers_can_be_turned_off() {
        for (value, propagate) in [("none", false), ("tracecontext,baggage", true), ("", true)] {
            assert_eq!(wish(&[("OTEL_PROPAGATORS", value)]).propagate, propagate, "{value:?}");
        }
    }
}
