use std::{
    io,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{SdkTracerProvider, SpanData, SpanExporter},
};
use tokio::time::advance;
use tracing::Dispatch;
use tracing_subscriber::{fmt::MakeWriter, layer::SubscriberExt};

use super::*;
use crate::chain::testing::{Mock, Rig, accept, down, offer};

/// The names of nested types, outermost first, without their paths and parameters.
fn nesting<T>(_: &T) -> Vec<&'static str> {
    let name = std::any::type_name::<T>();
    name.split(['<', '>', ',']).filter_map(|part| part.trim().rsplit("::").next()).filter(|n| !n.is_empty()).collect()
}

#[test]
fn the_layers_stand_in_their_order() {
    let provider: Arc<dyn Provider> = Arc::new(Mock::new("a"));
    assert_eq!(nesting(&layered(provider)), ["Trace", "Breaker", "RateLimit", "ConcurrencyLimit", "Adapter"]);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_handed_the_trace_context_of_its_own_span() {
    LazyLock::force(&ANOTHER);
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let rig = Rig::new(["a", "b"].map(Mock::new));
    rig.mock("a").will([down()]);
    rig.send(offer(1)).await;
    let [first, second] = ["a", "b"].map(|name| rig.mock(name).traceparents().remove(0));
    for traceparent in [&first, &second] {
        assert_eq!(traceparent.split('-').map(str::len).collect::<Vec<_>>(), [2, 32, 16, 2], "{traceparent}");
    }
    assert_ne!(first, second);
}

/// Keeps the spans that have ended.
#[derive(Clone, Debug, Default)]
struct Spans(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Spans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    }
}

impl Spans {
    /// The values of each event of the spans of that name.
    fn events(&self, name: &str) -> Vec<Vec<String>> {
        let spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let events = spans.iter().filter(|span| span.name == name).flat_map(|span| &span.events.events);
        events.map(|event| event.attributes.iter().map(|pair| pair.value.to_string()).collect()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempts_span_tells_who_was_passed_over_before_it() {
    LazyLock::force(&ANOTHER);
    let spans = Spans::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let narrow = |name| Mock::new(name).with(|can| can.max_recipients = Some(1));
    let rig = Rig::new([narrow("a"), Mock::new("b"), narrow("c")]);
    rig.mock("b").will([down()]);
    rig.send(offer(2)).await;
    let passed_over = ["a", "more recipients than the 1 that it takes"];
    assert_eq!(spans.events("attempt"), [passed_over]);
    assert_eq!(spans.events("round without an attempt"), Vec::<Vec<String>>::new());

    let nobody = Rig::new([narrow("a")]);
    nobody.send(offer(2)).await;
    assert_eq!(spans.events("round without an attempt"), [passed_over]);
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The lines written since the last look.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// With one subscriber in the process, tracing judges a callsite by the thread that meets it first, which may be that of
/// a test without any, and remembers "nobody listens". With two it asks both.
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

fn log_of_this_thread() -> (Log, tracing::subscriber::DefaultGuard) {
    LazyLock::force(&ANOTHER);
    let log = Log::default();
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).without_time().with_writer(log.clone());
    (log, tracing::subscriber::set_default(tracing_subscriber::registry().with(layer)))
}

fn count(lines: &[String], words: &str) -> usize {
    lines.iter().filter(|line| line.contains(words)).count()
}

#[tokio::test(start_paused = true)]
async fn each_change_of_a_circuit_and_the_first_message_of_an_outage_that_went_on_is_logged_once() {
    let (log, _guard) = log_of_this_thread();
    let rig = Rig::new(["a", "b"].map(Mock::new));
    for _ in 0..2 {
        rig.mock("a").will(vec![down(); 4]);
        for _ in 0..10 {
            rig.send(offer(1)).await;
        }
        let lines = log.take();
        assert_eq!(count(&lines, "circuit opened"), 1, "{lines:#?}");
        assert_eq!(count(&lines, "first message that went on through another provider"), 1, "{lines:#?}");
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(lines.iter().all(|line| line.contains("provider=\"a\"")), "{lines:#?}");

        advance(Duration::from_secs(10)).await;
        rig.mock("a").will([accept(), accept()]);
        for _ in 0..5 {
            rig.send(offer(1)).await;
        }
        let lines = log.take();
        assert_eq!(count(&lines, "circuit is half-open"), 1, "{lines:#?}");
        assert_eq!(count(&lines, "circuit closed"), 1, "{lines:#?}");
        assert_eq!(lines.len(), 2, "{lines:#?}");
        advance(Duration::from_secs(30)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_now_and_then_is_not_logged_for_each_message() {
    let (log, _guard) = log_of_this_thread();
    let rig = Rig::new(["a", "b"].map(Mock::new));
    for _ in 0..10 {
        rig.mock("a").will([down(), accept(), accept(), accept(), accept()]);
        for _ in 0..5 {
            rig.send(offer(1)).await;
        }
    }
    let lines = log.take();
    assert_eq!(count(&lines, "went on through another provider"), 1, "{lines:#?}");

    advance(Duration::from_secs(60)).await;
    rig.mock("a").will([accept(), down()]);
    rig.send(offer(1)).await;
    rig.send(offer(1)).await;
    assert_eq!(count(&log.take(), "went on through another provider"), 1, "another outage, another line");
}

#[tokio::test(start_paused = true)]
async fn nothing_logged_holds_an_address() {
    let (log, _guard) = log_of_this_thread();
    let rig = Rig::new(["a", "b"].map(Mock::new));
    rig.mock("a").will([crate::chain::testing::Act::Panic, down(), down(), down(), down()]);
    for _ in 0..5 {
        rig.send(offer(2)).await;
    }
    let lines = log.take();
    assert!(count(&lines, "the adapter panicked") == 1 && count(&lines, "circuit opened") == 1, "{lines:#?}");
    assert_eq!(count(&lines, "@"), 0, "{lines:#?}");
}
