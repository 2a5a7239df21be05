//! Traces as a collector gets them.
//!
//! Logs and traces are set up once a process, so each test runs itself again as a process of its own, in the environment
//! that it is about: there it plays the service, here the collector and the judge.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod collector;
mod service;

use std::{net::TcpListener, time::Instant};

use collector::attribute;
use http::HeaderMap;
use opentelemetry_proto::tonic::trace::v1::{span::SpanKind, status::StatusCode};
use postrider::{
    config,
    delivery::{Class, ProviderName, Skip, Status},
    telemetry::{self, OutboxGauges},
};
use service::{
    CALLER, METHOD, Said, TRACE, accept, attempt, called_with_context, headers, hex, is_service, message, run, settings,
};
use time::macros::datetime;

#[tokio::test]
async fn attempts_belong_to_the_callers_trace() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        let accepted = accept(&called_with_context());
        // Another process, another day: nothing is left but what was kept with the message.
        let read_back = message(accepted.trace.clone());
        println!("\ntraceparent={}\ntracestate={}", attempt(&read_back, Class::Unavailable), accepted.trace.tracestate);
        return guard.shutdown().await;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    let said = run("attempts_belong_to_the_callers_trace", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;

    assert_eq!(received.names(), ["attempt", METHOD], "only our own spans are exported");
    let (call, attempt) = (received.span(METHOD), received.span("attempt"));
    for span in [&call, &attempt] {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), CALLER);
    }
    assert_eq!(said.value("traceparent"), format!("00-{TRACE}-{}-01", hex(&attempt.span_id)));
    assert_eq!(said.value("tracestate"), "shop=42");
    assert_eq!((call.kind(), attempt.kind()), (SpanKind::Server, SpanKind::Client));
    assert_eq!(attempt.status.as_ref().unwrap().code(), StatusCode::Error);
    assert_eq!(attribute(&attempt.attributes, "outcome").as_deref(), Some("UNAVAILABLE"));
    assert_eq!(attribute(&attempt.attributes, "postrider.provider").as_deref(), Some("relay"));
    assert_eq!(attribute(&attempt.attributes, "postrider.correlation_id").as_deref(), Some("order-7"));
    assert_eq!(received.resource("service.name").as_deref(), Some("postrider"));
    assert_eq!(received.resource("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    for span in received.spans() {
        let text = format!("{span:?}");
        assert!(!text.contains("example.com") && !text.contains("Confidential"), "{text}");
        let noise = |key: &str| {
            ["busy_ns", "idle_ns", "target", "level"].contains(&key)
                || key.starts_with("code.")
                || key.starts_with("thread.")
        };
        assert!(!span.attributes.iter().any(|attribute| noise(&attribute.key)), "{text}");
    }
}

#[tokio::test]
async fn without_a_callers_context_attempts_belong_to_the_call() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        let accepted = accept(&HeaderMap::new());
        println!("\ntrace={}", telemetry::trace_id(&accepted.trace).unwrap());
        attempt(&accepted, Class::Accepted);
        // No shutdown: the guard hands the spans over when it is dropped, on a runtime of one thread too.
        drop(guard);
        return;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    let said = run(
        "without_a_callers_context_attempts_belong_to_the_call",
        &[
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=ignored,deployment.environment.name=test"),
            ("OTEL_SERVICE_NAME", "mail"),
        ],
    )
    .await;
    let (call, attempt) = (received.span(METHOD), received.span("attempt"));
    assert_eq!(hex(&call.parent_span_id), "");
    assert_eq!(attempt.parent_span_id, call.span_id);
    assert_eq!(attempt.trace_id, call.trace_id);
    assert_eq!(said.value("trace"), hex(&call.trace_id));
    assert!(attempt.status.is_none_or(|status| status.code() == StatusCode::Unset));
    assert_eq!(received.resource("service.name").as_deref(), Some("mail"));
    assert_eq!(received.resource("deployment.environment.name").as_deref(), Some("test"));
}

#[tokio::test]
async fn without_an_export_the_context_is_passed_on() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        println!("\ncalled={}", attempt(&accept(&called_with_context()), Class::Accepted));
        let own = accept(&HeaderMap::new());
        println!("own={}\ntrace={}", attempt(&own, Class::Accepted), telemetry::trace_id(&own.trace).unwrap());
        return guard.shutdown().await;
    }
    let said = run("without_an_export_the_context_is_passed_on", &[]).await;
    assert_eq!(said.value("called"), format!("00-{TRACE}-{CALLER}-01"));
    assert!(said.value("own").starts_with(&format!("00-{}-", said.value("trace"))), "{}", said.out);
}

#[tokio::test]
async fn trace_headers_can_be_turned_off() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        println!("\ntraceparent={}", attempt(&accept(&called_with_context()), Class::Accepted));
        return guard.shutdown().await;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    let said = run(
        "trace_headers_can_be_turned_off",
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint), ("OTEL_PROPAGATORS", "none")],
    )
    .await;
    assert_eq!(said.value("traceparent"), "");
    let (call, attempt) = (received.span(METHOD), received.span("attempt"));
    assert_ne!(hex(&call.trace_id), TRACE);
    assert_eq!(attempt.parent_span_id, call.span_id);
}

#[tokio::test]
async fn a_caller_that_is_not_sampled_is_not_recorded() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        let headers = headers(&[("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")]);
        println!("\ntraceparent={}", attempt(&accept(&headers), Class::Accepted));
        attempt(&accept(&HeaderMap::new()), Class::Accepted);
        return guard.shutdown().await;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    let said = run("a_caller_that_is_not_sampled_is_not_recorded", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
    let traceparent = said.value("traceparent");
    assert!(traceparent.starts_with(&format!("00-{TRACE}-")) && traceparent.ends_with("-00"), "{traceparent}");
    assert_eq!(received.names(), ["attempt", METHOD], "only those of the other call");
    assert_ne!(hex(&received.span("attempt").trace_id), TRACE);
}

#[tokio::test]
async fn who_was_passed_over_stands_in_the_trace_of_the_attempt_and_of_a_round_without_one() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        let accepted = accept(&called_with_context());
        let skip = |provider, reason: &str, until| Skip {
            provider: ProviderName::new(provider),
            reason: reason.into(),
            until,
        };
        let skipped = [
            skip("first", "circuit is open", Some(datetime!(2026-12-01 12:00 UTC))),
            skip("second", "does not show images inside the HTML", None),
        ];
        telemetry::note_skipped(&telemetry::attempt_span(&accepted, &ProviderName::new("relay")), &skipped);
        telemetry::note_idle_round(&accepted, &skipped[..1]);
        return guard.shutdown().await;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    let test = "who_was_passed_over_stands_in_the_trace_of_the_attempt_and_of_a_round_without_one";
    run(test, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).await;
    let told = |name: &str| -> Vec<Vec<Option<String>>> {
        let span = received.span(name);
        assert_eq!(hex(&span.trace_id), TRACE);
        assert!(span.events.iter().all(|event| event.name == "provider skipped"));
        let keys = ["postrider.provider", "reason", "until"];
        span.events.iter().map(|event| keys.map(|key| attribute(&event.attributes, key)).to_vec()).collect()
    };
    let words = |words: &str| Some(words.to_owned());
    let first = vec![words("first"), words("circuit is open"), words("2026-12-01T12:00:00Z")];
    let second = vec![words("second"), words("does not show images inside the HTML"), None];
    assert_eq!(told("attempt"), [first.clone(), second]);
    assert_eq!(told("round without an attempt"), [first]);
}

#[tokio::test]
async fn messages_that_went_on_without_the_first_provider_are_counted() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        let [first, second] = ["first", "second"].map(ProviderName::new);
        telemetry::count_failover("default", &first, &second);
        telemetry::count_failover("default", &first, &second);
        return guard.shutdown().await;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    let test = "messages_that_went_on_without_the_first_provider_are_counted";
    run(test, &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &endpoint)]).await;
    let [(attributes, count)] = &mut received.values("postrider.chain.failovers")[..] else { panic!("one chain") };
    attributes.sort();
    assert_eq!((&attributes[..], *count), (&["default", "first", "second"].map(str::to_owned)[..], 2));
}

#[tokio::test]
async fn the_outbox_is_exported_in_figures() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        let gauges = OutboxGauges::exported();
        gauges.set_days_ahead(7);
        gauges.set_messages(vec![(Status::InProcess, 2), (Status::SuccessSent, 40)]);
        gauges.set_messages(vec![(Status::InProcess, 1), (Status::SuccessSent, 41)]);
        return guard.shutdown().await;
    }
    let (address, received) = collector::start().await;
    let endpoint = format!("http://{address}");
    run("the_outbox_is_exported_in_figures", &[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &endpoint)]).await;
    assert_eq!(received.values("postrider.outbox.days_ahead"), [(vec![], 7)]);
    let mut messages = received.values("postrider.outbox.messages");
    messages.sort();
    assert_eq!(messages, [(vec!["IN_PROCESS".into()], 1), (vec!["SUCCESS_SENT".into()], 41)]);
    assert_eq!(received.values("postrider.outbox.days_postponed"), [], "nobody told");
}

/// Makes more spans than the export can hold, and ends.
async fn work_and_end() {
    let started = Instant::now();
    let guard = telemetry::init(&settings()).unwrap();
    for _ in 0..5000 {
        attempt(&accept(&called_with_context()), Class::Accepted);
    }
    let worked = started.elapsed();
    guard.shutdown().await;
    println!("\nworked_ms={}\nended_ms={}", worked.as_millis(), (started.elapsed() - worked).as_millis());
}

fn assert_not_held_up(said: &Said) {
    let ms = |name: &str| said.value(name).parse::<u64>().unwrap();
    // Were each span to wait for the collector, this would take hours.
    assert!(ms("worked_ms") < 60_000, "{}", said.out);
    assert!(ms("ended_ms") < 5000, "the limit is 500 ms: {}", said.out);
    let complaints = said.err.lines().filter(|line| line.contains("opentelemetry")).count();
    assert!(complaints <= 1, "{}", said.err);
}

#[tokio::test]
async fn a_collector_that_is_away_holds_nothing_up() {
    if is_service() {
        return work_and_end().await;
    }
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoint = format!("http://{address}");
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "10")];
    assert_not_held_up(&run("a_collector_that_is_away_holds_nothing_up", &environment).await);
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_nothing_up() {
    if is_service() {
        return work_and_end().await;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "10")];
    let said = run("a_collector_that_never_answers_holds_nothing_up", &environment).await;
    silent.abort();
    assert_not_held_up(&said);
    assert!(said.err.contains("the last spans were not exported"), "{}", said.err);
}

#[tokio::test]
async fn what_the_environment_asks_for_in_vain_is_a_warning() {
    if is_service() {
        let guard = telemetry::init(&settings()).unwrap();
        attempt(&accept(&HeaderMap::new()), Class::Accepted);
        return guard.shutdown().await;
    }
    for (environment, warning) in [
        ([("OTEL_EXPORTER_OTLP_ENDPOINT", "not a url"), ("A", "b")], "invalid endpoint"),
        (
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
            "only grpc is spoken",
        ),
    ] {
        let said = run("what_the_environment_asks_for_in_vain_is_a_warning", &environment).await;
        assert!(said.err.contains(warning) && said.err.contains("WARN"), "{}", said.err);
    }
}

#[tokio::test]
async fn a_log_line_is_one_json_object_and_holds_no_words_of_a_panic() {
    if is_service() {
        let json = config::Telemetry { log_format: config::LogFormat::Json, ..settings() };
        let guard = telemetry::init(&json).unwrap();
        let accepted = accept(&HeaderMap::new());
        telemetry::attempt_span(&accepted, &ProviderName::new("relay")).in_scope(|| tracing::info!("in the attempt"));
        for _ in 0..3 {
            tracing::error!(target: "opentelemetry_sdk", "a complaint");
        }
        tracing::debug!("left out");
        assert!(matches!(telemetry::init(&json), Err(telemetry::InitError::AlreadyDone)));
        assert!(std::thread::spawn(|| panic!("Confidential")).join().is_err());
        return guard.shutdown().await;
    }
    // Nobody listens there: what matters is that a second set-up with an export ends without harm.
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"), ("OTEL_TRACES_SAMPLER", "always_off")];
    let said = run("a_log_line_is_one_json_object_and_holds_no_words_of_a_panic", &environment).await;
    let lines: Vec<serde_json::Value> =
        said.err.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect();
    let messages: Vec<&str> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["in the attempt", "a complaint", "panicked"]);
    assert_eq!(lines[0]["span"]["postrider.provider"], "relay");
    assert!(lines[2]["location"].as_str().unwrap().contains("telemetry"), "{}", lines[2]);
    assert!(!said.err.contains("Confidential") && !said.err.contains("example.com"), "{}", said.err);
}

#[tokio::test]
async fn a_filter_of_lines_that_cannot_be_understood_is_refused() {
    if is_service() {
        let error = telemetry::init(&settings()).err().map(|error| error.to_string());
        println!("\nerror={}", error.unwrap_or_default());
        return;
    }
    let environment = [("RUST_LOG", "loud,,=x"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")];
    let said = run("a_filter_of_lines_that_cannot_be_understood_is_refused", &environment).await;
    assert!(said.value("error").starts_with("RUST_LOG says \"loud,,=x\", expected"), "{}", said.out);
}
