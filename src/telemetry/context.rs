//! W3C trace contexts (<https://www.w3.org/TR/trace-context/>): read from a call, kept with a message, written again.
//!
//! Owns the two headers; no span.

use std::{str::FromStr, sync::OnceLock};

use http::HeaderMap;
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::message::TraceContext;

/// How long a `tracestate` may be: what everybody who passes it on should manage.
const TRACESTATE_LIMIT: usize = 512;

/// Whether trace headers are read and written, once the environment has been asked.
static PROPAGATION: OnceLock<bool> = OnceLock::new();

/// Turns the reading and writing of trace headers on or off. The first call decides.
pub(super) fn set_propagation(on: bool) {
    PROPAGATION.get_or_init(|| on);
}

/// Whether trace headers are read and written.
pub(super) fn is_propagated() -> bool {
    PROPAGATION.get().copied().unwrap_or(true)
}

/// The trace context that a message is kept with: the caller's if the call brought a valid one, else that of the current
/// span, else a new one, so that there always is a trace id to find the message by. Ask once a call.
pub fn accept_context(headers: &HeaderMap) -> TraceContext {
    caller_context(headers).or_else(|| span_context(&Span::current())).map_or_else(fresh, |context| kept(&context))
}

/// The trace id, 32 hexadecimal digits; `None` where the context is not valid.
pub fn trace_id(context: &TraceContext) -> Option<&str> {
    parse(context).and_then(|_| context.traceparent.get(3..35))
}

/// The context that a call's headers carry.
pub(super) fn caller_context(headers: &HeaderMap) -> Option<SpanContext> {
    if !is_propagated() {
        return None;
    }
    let mut parents = headers.get_all("traceparent").iter();
    let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
    let states: Vec<&str> = headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok()).collect();
    parse(&TraceContext { traceparent: parent.to_str().ok()?.trim().to_owned(), tracestate: states.join(",") })
}

/// The context of a span, if spans are exported at all.
pub(super) fn span_context(span: &Span) -> Option<SpanContext> {
    let context = span.context().span().span_context().clone();
    context.is_valid().then_some(context)
}

/// A parent in that context, for a span of another process or of another day.
pub(super) fn remote_parent(context: SpanContext) -> Context {
    Context::new().with_remote_span_context(context)
}

/// Reads a context. A `tracestate` that is not valid or too long is left out, as the standard has it.
pub(super) fn parse(context: &TraceContext) -> Option<SpanContext> {
    let (trace, span, flags) = parts(&context.traceparent)?;
    let state = Some(&context.tracestate)
        .filter(|state| !state.is_empty() && state.len() <= TRACESTATE_LIMIT)
        .and_then(|state| TraceState::from_str(state).ok())
        .unwrap_or_default();
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED,
        true,
        state,
    );
    context.is_valid().then_some(context)
}

/// Trace id, span id and flags. A version after 00 may have more behind them.
fn parts(traceparent: &str) -> Option<(&str, &str, &str)> {
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let mut fields = traceparent.split('-');
    let (version, trace, span, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let sized = (version.len(), trace.len(), span.len(), flags.len()) == (2, 32, 16, 2);
    let digits = [version, trace, span, flags].into_iter().all(hex);
    let known = version != "ff" && (version != "00" || fields.next().is_none());
    (sized && digits && known).then_some((trace, span, flags))
}

/// The header `traceparent` of a context.
pub(super) fn header(context: &SpanContext) -> String {
    format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        (context.trace_flags() & TraceFlags::SAMPLED).to_u8()
    )
}

fn kept(context: &SpanContext) -> TraceContext {
    TraceContext { traceparent: header(context), tracestate: context.trace_state().header() }
}

/// A context that no span stands behind. It says 'sampled', so that a gateway that goes by its parent records.
fn fresh() -> TraceContext {
    let (trace, span) = (rand::random::<u128>().max(1), rand::random::<u64>().max(1));
    TraceContext { traceparent: format!("00-{trace:032x}-{span:016x}-01"), tracestate: String::new() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |&(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
    }

    #[test]
    fn a_callers_context_is_kept_as_it_came() {
        let kept = accept_context(&headers(&[("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")]));
        assert_eq!(kept, TraceContext { traceparent: PARENT.into(), tracestate: "a=1,b=2".into() });
        assert_eq!(trace_id(&kept), Some("0af7651916cd43dd8448eb211c80319c"));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let kept = accept_context(&headers(&[("traceparent", &format!("cc{}-more", &PARENT[2..]))]));
        assert_eq!(kept.traceparent, PARENT);
    }

    #[test]
    fn a_context_that_is_not_valid_is_replaced_by_a_new_one() {
        for parent in [
            "",
            "nonsense",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-f7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            let kept = accept_context(&headers(&[("traceparent", parent), ("tracestate", "a=1")]));
            let id = trace_id(&kept).unwrap_or_else(|| panic!("{parent:?} gave {kept:?}"));
            assert_ne!(id, "0af7651916cd43dd8448eb211c80319c", "{parent:?}");
            assert_eq!(kept.tracestate, "", "{parent:?}");
        }
    }

    #[test]
    fn two_traceparents_are_none() {
        let kept = accept_context(&headers(&[("traceparent", PARENT), ("traceparent", PARENT)]));
        assert_ne!(trace_id(&kept), Some("0af7651916cd43dd8448eb211c80319c"));
    }

    #[test]
    fn a_tracestate_that_is_not_valid_or_too_long_is_left_out() {
        for state in ["no equals sign".to_owned(), format!("a={}", "x".repeat(600))] {
            let kept = accept_context(&headers(&[("traceparent", PARENT), ("tracestate", &state)]));
            assert_eq!(kept, TraceContext { traceparent: PARENT.into(), tracestate: String::new() });
        }
    }

    #[test]
    fn a_call_without_a_context_gets_a_trace_of_its_own() {
        let (a, b) = (accept_context(&HeaderMap::new()), accept_context(&HeaderMap::new()));
        assert!(trace_id(&a).is_some());
        assert_ne!(trace_id(&a), trace_id(&b));
        assert_eq!(trace_id(&TraceContext::default()), None);
    }
}
