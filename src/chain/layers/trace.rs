//! The span of an attempt: its provider, who was passed over before it and how it ended, never who it went to.
//!
//! Owns where the span begins and ends; its name and fields are the telemetry's.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use tower::{Layer, Service};
use tracing::Instrument;

use super::{Answer, Carries, Considered};
use crate::{
    delivery::{Outcome, ProviderName},
    telemetry,
};

/// Puts each call into the span of its attempt, which continues the trace of the call that brought the message.
#[derive(Clone)]
pub(super) struct TraceLayer {
    provider: ProviderName,
}

impl TraceLayer {
    pub(super) fn new(provider: ProviderName) -> Self {
        Self { provider }
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Trace<S> {
        Trace { provider: self.provider.clone(), inner }
    }
}

/// See [`TraceLayer`].
#[derive(Clone)]
pub(super) struct Trace<S> {
    provider: ProviderName,
    inner: S,
}

impl<S, C> Service<Considered<C>> for Trace<S>
where
    S: Service<C, Response = Outcome, Error = Infallible, Future = Answer>,
    C: Carries,
{
    type Response = Outcome;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, Considered { skipped, mut call }: Considered<C>) -> Answer {
        let submission = call.submission();
        let span = telemetry::attempt_span(&submission.message, &self.provider);
        telemetry::note_skipped(&span, &skipped);
        submission.traceparent = telemetry::traceparent(&span, &submission.message);
        let answer = span.in_scope(|| self.inner.call(call));
        let of_attempt = span.clone();
        let traced = async move {
            let outcome = answer.await?;
            telemetry::end_attempt(&of_attempt, &outcome);
            Ok(outcome)
        };
        Box::pin(traced.instrument(span))
    }
}
