//! From Python's grpcio to an HTTP gateway: what ties a message to the caller's own work arrives there.

use postrider::sandbox::{
    http::{HttpOptions, HttpSink},
    inbox::Mail,
};
use serde_json::Value;

use super::{has_grpcio, send_specimens};
use crate::support::program::Program;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn gateway(sink: &HttpSink) -> String {
    format!("[providers.gateway]\nkind = \"http\"\nurl = {:?}\n[chains]\ndefault = [\"gateway\"]\n", sink.url())
}

/// What the gateway is told beside the message itself: trace, correlation id and idempotency key.
fn told(mail: &Mail) -> [&str; 3] {
    ["traceparent", "x-correlation-id", "idempotency-key"].map(|name| mail.property(name).unwrap_or_default())
}

#[tokio::test]
async fn the_callers_trace_and_correlation_id_reach_the_gateway() {
    if !has_grpcio() {
        return;
    }
    let sink = HttpSink::start(HttpOptions::default()).await.expect("the gateway starts");
    let program = Program::serve(&gateway(&sink)).await;
    let traceparent = format!("traceparent=00-{TRACE}-00f067aa0ba902b7-01");
    let metadata = [traceparent.as_str(), "tracestate=shop=42", "x-correlation-id=order 4711", "x-client-id=shop"];
    let ids = send_specimens(&program, 1, &metadata).await;

    let mail = &sink.inbox().all()[0];
    let [parent, correlation, key] = told(mail);
    assert_eq!((correlation, key), ("order 4711", ids[0].as_str()));
    assert_eq!(mail.property("tracestate"), Some("shop=42"));
    assert_eq!(parent.split('-').nth(1), Some(TRACE), "{parent}");
    let client: String = program.database().scalar("select client from message").await;
    assert_eq!(client, "shop");

    let json: Value = serde_json::from_slice(mail.content.bytes().expect("it is kept")).expect("JSON");
    assert_eq!(json["from"]["name"], "Магазин «Ёж»");
    assert_eq!(json["attachments"][0]["filename"], "Счёт-фактура № 4711.pdf");
    assert_eq!(json["attachments"][1]["content_id"], "logo@shop");
    assert_eq!(json["metadata"]["заказ"], "4711");
    assert_eq!(sink.inbox().counts().repeats, 0);
    program.stop().await;
}

#[tokio::test]
async fn a_call_without_a_correlation_id_is_found_by_its_trace() {
    if !has_grpcio() {
        return;
    }
    let sink = HttpSink::start(HttpOptions::default()).await.expect("the gateway starts");
    let program = Program::serve(&gateway(&sink)).await;
    send_specimens(&program, 1, &[&format!("traceparent=00-{TRACE}-00f067aa0ba902b7-01")]).await;
    let [parent, correlation, _] = told(&sink.inbox().all()[0]).map(str::to_owned);
    assert_eq!((parent.split('-').nth(1), correlation.as_str()), (Some(TRACE), TRACE));
    program.stop().await;
}
