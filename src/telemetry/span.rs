//! The spans of a call and of an attempt.
//!
//! Owns their names, parents and fields; which fields there are is said here once, so that no content gets in.

use http::HeaderMap;
use opentelemetry::{KeyValue, trace::Status};
use time::format_description::well_known::Rfc3339;
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::context;
use crate::{
    delivery::{Class, Outcome, ProviderName, Skip},
    message::Message,
};

/// The span of a call to the server, a child of the caller's. `method` is the full name, `package.Service/Method`.
///
/// To be recorded in its course: `messaging.message.id`, `postrider.correlation_id`, and at its end
/// `rpc.response.status_code`; `otel.status_code` and `error.type` only for what the server did wrong.
pub fn server_span(method: &str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(
        "call",
        otel.name = method,
        otel.kind = "server",
        otel.status_code = field::Empty,
        rpc.system.name = "grpc",
        rpc.method = method,
        rpc.response.status_code = field::Empty,
        error.type = field::Empty,
        messaging.message.id = field::Empty,
        postrider.correlation_id = field::Empty,
    );
    if let Some(caller) = context::caller_context(headers) {
        adopt(&span, caller);
    }
    span
}

/// The span of one attempt. It is a child of the span that brought the message, as that was kept with the message: so
/// attempts belong to the caller's trace days later, too, and after a restart.
pub fn attempt_span(message: &Message, provider: &ProviderName) -> Span {
    let span = tracing::info_span!(
        parent: None,
        "attempt",
        otel.kind = "client",
        messaging.message.id = %message.id,
        postrider.correlation_id = message.correlation_id,
        postrider.client = message.client.as_str(),
        postrider.provider = provider.as_str(),
        outcome = field::Empty,
        code = field::Empty,
    );
    if let Some(caller) = context::parse(&message.trace) {
        adopt(&span, caller);
    }
    span
}

/// Records who was considered before and passed over: an event for each, with the reason.
pub fn note_skipped(span: &Span, skipped: &[Skip]) {
    for Skip { provider, reason, until } in skipped {
        let mut attributes = vec![
            KeyValue::new("postrider.provider", provider.as_str().to_owned()),
            KeyValue::new("reason", reason.clone()),
        ];
        if let Some(until) = until.and_then(|until| until.format(&Rfc3339).ok()) {
            attributes.push(KeyValue::new("until", until));
        }
        span.add_event("provider skipped", attributes);
    }
}

/// Leaves a span of its own for a round in which nobody could be asked: it says who was considered, and why not.
pub fn note_idle_round(message: &Message, skipped: &[Skip]) {
    let span = tracing::info_span!(
        parent: None,
        "round without an attempt",
        messaging.message.id = %message.id,
        postrider.correlation_id = message.correlation_id,
        postrider.client = message.client.as_str(),
    );
    if let Some(caller) = context::parse(&message.trace) {
        adopt(&span, caller);
    }
    note_skipped(&span, skipped);
}

/// Records how an attempt ended: its class and the provider's code, not the provider's words, which may hold addresses.
pub fn end_attempt(span: &Span, outcome: &Outcome) {
    let Some(verdict) = outcome.headline() else { return };
    span.record("outcome", verdict.class.as_str());
    span.record("code", verdict.code.as_str());
    if verdict.class != Class::Accepted {
        span.set_status(Status::error(verdict.class.as_str()));
    }
}

/// The header `traceparent` to send with an attempt: its span's, or without an export the one that came with the
/// message. Empty where trace headers are turned off or there is none.
pub fn traceparent(span: &Span, message: &Message) -> String {
    if !context::is_propagated() {
        return String::new();
    }
    match context::span_context(span) {
        Some(context) => context::header(&context),
        None => message.trace.traceparent.clone(),
    }
}

fn adopt(span: &Span, parent: opentelemetry::trace::SpanContext) {
    // It fails only where spans are not exported: then there is nothing to have a parent.
    span.set_parent(context::remote_parent(parent)).ok();
}
