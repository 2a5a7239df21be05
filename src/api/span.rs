//! The server span of each call: its method and how it ended. No content, no address.
//!
//! Owns no exporter. Health checks and reflection get no span: they come every few seconds and say nothing.

use std::{
    collections::BTreeSet,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Instrument as _, Span};

use crate::{proto, telemetry};

/// Puts each call to Postrider's services into a span.
#[derive(Clone, Debug)]
pub(super) struct SpanLayer {
    methods: Arc<BTreeSet<String>>,
}

impl SpanLayer {
    /// For the calls of the contract.
    pub(super) fn new() -> Self {
        Self { methods: Arc::new(methods(proto::DESCRIPTORS)) }
    }
}

impl<S> Layer<S> for SpanLayer {
    type Service = Spanned<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Spanned { inner, methods: Arc::clone(&self.methods) }
    }
}

/// The service that [`SpanLayer`] makes.
#[derive(Clone, Debug)]
pub(super) struct Spanned<S> {
    inner: S,
    methods: Arc<BTreeSet<String>>,
}

impl<S, B, C> Service<Request<B>> for Spanned<S>
where
    S: Service<Request<B>, Response = Response<C>>,
    S::Future: Send + 'static,
{
    type Response = Response<C>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<C>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let method = request.uri().path().trim_start_matches('/');
        // A path that is not in the contract is whatever somebody typed: it never becomes a name.
        let Some(method) = self.methods.get(method) else { return Box::pin(self.inner.call(request)) };
        let span = telemetry::server_span(method, request.headers());
        let answer = span.in_scope(|| self.inner.call(request)).instrument(span.clone());
        Box::pin(async move {
            let response = answer.await?;
            record(&span, &response);
            Ok(response)
        })
    }
}

/// Records how the call ended. An error's code is in the headers; without one there the call was answered.
fn record<C>(span: &Span, response: &Response<C>) {
    let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
    span.record("rpc.response.status_code", code_name(code));
    if is_servers_error(code) {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", code_name(code));
    }
}

/// Whether a server's span is an error: OpenTelemetry's semantic conventions for gRPC count only what the server did
/// wrong.
fn is_servers_error(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// The full names of the contract's calls: `postrider.v1.EmailService/SendEmail`.
fn methods(descriptors: &[u8]) -> BTreeSet<String> {
    let files = FileDescriptorSet::decode(descriptors).expect("the build script wrote it").file;
    let of_file = |file: prost_types::FileDescriptorProto| {
        let package = file.package.unwrap_or_default();
        file.service.into_iter().flat_map(move |service| {
            let name = format!("{package}.{}", service.name.unwrap_or_default());
            service.method.into_iter().map(move |method| format!("{name}/{}", method.name.unwrap_or_default()))
        })
    };
    files.into_iter().flat_map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_the_contract_are_known() {
        let methods = methods(proto::DESCRIPTORS);
        assert!(methods.contains("postrider.v1.EmailService/SendEmail"));
        assert!(methods.contains("postrider.v1.OperatorService/SetLaneMode"));
        assert_eq!(methods.len(), 6 + 9);
    }

    #[test]
    fn only_what_the_server_did_wrong_is_an_error() {
        for code in (0..17).map(Code::from_i32) {
            let expected = matches!(
                code_name(code),
                "UNKNOWN" | "DEADLINE_EXCEEDED" | "UNIMPLEMENTED" | "INTERNAL" | "UNAVAILABLE" | "DATA_LOSS"
            );
            assert_eq!(is_servers_error(code), expected, "{code:?}");
        }
    }
}
