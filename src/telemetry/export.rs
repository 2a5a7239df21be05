//! The export of spans and metrics: whether there is one, how it is made, and how it ends.
//!
//! Owns the collector's connection and the thread it lives on. Nothing here ever makes a message wait.

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider, resource::EnvResourceDetector, trace::SdkTracerProvider};
use tokio::runtime::{self, Runtime};

/// What OpenTelemetry's variables ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wish {
    /// Whether spans are exported.
    pub(super) spans: bool,
    /// Whether metrics are exported.
    pub(super) metrics: bool,
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
        let spans = is_wanted("TRACES", "spans", &variable, &mut warnings);
        let metrics = is_wanted("METRICS", "metrics", &variable, &mut warnings);
        let propagators = words(variable("OTEL_PROPAGATORS"), "tracecontext");
        refuse("OTEL_PROPAGATORS", &propagators, &["tracecontext", "baggage", "none"], &mut warnings);
        let propagate = propagators.iter().any(|word| word == "tracecontext");
        Self { spans, metrics, propagate, warnings }
    }

    /// Whether anything is exported.
    pub(super) fn export(&self) -> bool {
        self.spans || self.metrics
    }
}

/// Whether a signal is wanted, by the name that it has in the variables, and can be exported.
fn is_wanted(signal: &str, what: &str, variable: &impl Fn(&str) -> Option<String>, warnings: &mut Vec<String>) -> bool {
    let own_or_all = |name: &str| [format!("OTEL_EXPORTER_OTLP_{signal}_{name}"), format!("OTEL_EXPORTER_OTLP_{name}")];
    let is_asked_for = own_or_all("ENDPOINT").iter().any(|name| variable(name).is_some())
        && variable("OTEL_SDK_DISABLED").as_deref() != Some("true");
    if !is_asked_for {
        return false;
    }
    let exporter = format!("OTEL_{signal}_EXPORTER");
    let exporters = words(variable(&exporter), "otlp");
    refuse(&exporter, &exporters, &["otlp", "none"], warnings);
    if !exporters.iter().any(|word| word == "otlp") {
        return false;
    }
    let protocol = own_or_all("PROTOCOL").into_iter().find_map(|name| variable(&name).map(|value| (name, value)));
    match protocol {
        Some((name, value)) if value != "grpc" => {
            warnings.push(format!("{name}={value}: only grpc is spoken, so no {what} are exported"));
            false
        }
        _ => true,
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
    pub(super) spans: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
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
    pub(super) fn start(wish: &Wish) -> Result<Self, Box<dyn std::error::Error>> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .thread_name("otlp")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let runtime = OwnRuntime(Some(runtime));
        let _inside = handle.enter();
        let (mut spans, mut metrics) = (None, None);
        if wish.spans {
            let exporter = SpanExporter::builder().with_tonic().build()?;
            spans = Some(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build());
        }
        if wish.metrics {
            let exporter = MetricExporter::builder().with_tonic().build()?;
            let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource());
            metrics = Some(provider.build());
        }
        metrics.iter().for_each(|metrics| global::set_meter_provider(metrics.clone()));
        Ok(Self { spans, metrics, _runtime: runtime })
    }

    /// Hands over what is left, within that time.
    fn close(self, limit: Duration) {
        let begun = Instant::now();
        if let Some(spans) = &self.spans
            && let Err(error) = spans.shutdown_with_timeout(limit)
        {
            tracing::warn!(%error, "the last spans were not exported");
        }
        if let Some(metrics) = self.metrics {
            close_metrics(metrics, limit.saturating_sub(begun.elapsed()));
        }
    }
}

/// The last figures are no loss. Closing them knows no limit of its own, so it is left behind.
fn close_metrics(metrics: SdkMeterProvider, limit: Duration) {
    let (closed, is_closed) = mpsc::channel();
    let closing = thread::spawn(move || closed.send(metrics.shutdown().is_ok()));
    match is_closed.recv_timeout(limit) {
        Ok(true) => drop(closing.join()),
        Ok(false) | Err(_) => tracing::debug!("the last metrics were not exported"),
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
            let wish = wish(variables);
            assert_eq!((wish.spans, wish.propagate, wish.warnings), (export, true, vec![]), "{variables:?}");
        }
    }

    #[test]
    fn metrics_are_exported_by_variables_of_their_own() {
        for (variables, export) in [
            (&[ENDPOINT][..], true),
            (&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:4317")], true),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317")], false),
            (&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")], false),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], true),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")], false),
        ] {
            assert_eq!(wish(variables).metrics, export, "{variables:?}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_a_warning_and_no_failure() {
        let wish = wish(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), ("OTEL_PROPAGATORS", "b3")]);
        assert_eq!((wish.export(), wish.propagate), (false, false));
        assert_eq!(
            wish.warnings,
            [
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: only grpc is spoken, so no spans are exported",
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf: only grpc is spoken, so no metrics are exported",
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
