//! The least that a gRPC server costs: SendEmail answered by a bare handler.
//!
//! Owns the server; the calls come from the same callers as Postrider's.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use prost::Message as _;
use tokio::{net::TcpListener, task::AbortHandle};
use tonic::{
    Request, Response,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
    transport::{Server, server::TcpIncoming},
};
use tonic_prost::ProstCodec;

use crate::{
    bench::BenchError,
    outbox::Floor,
    proto::v1::{SendEmailRequest, SendEmailResponse},
};

/// What the handler does before it answers.
pub(in crate::bench) enum Work {
    /// Nothing.
    Echo,
    /// It commits one insert of the same content.
    Insert(Floor),
}

/// A running server. Dropping it ends it.
pub(in crate::bench) struct BareServer {
    address: SocketAddr,
    serving: AbortHandle,
}

impl BareServer {
    /// Starts it at a free port.
    pub(in crate::bench) async fn start(work: Work) -> Result<Self, BenchError> {
        let failed =
            |error: std::io::Error| BenchError::Connect { what: "the floor's server", reason: error.to_string() };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let service = BareService(Handler(Arc::new(work)));
        let serving = tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        Ok(Self { address, serving: serving.abort_handle() })
    }

    /// Where it listens.
    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Clone)]
struct Handler(Arc<Work>);

impl UnaryService<SendEmailRequest> for Handler {
    type Response = SendEmailResponse;
    type Future = BoxFuture<'static, Result<Response<SendEmailResponse>, tonic::Status>>;

    fn call(&mut self, request: Request<SendEmailRequest>) -> Self::Future {
        let work = self.0.clone();
        Box::pin(async move {
            if let Work::Insert(floor) = &*work {
                let content = request.into_inner().email.unwrap_or_default().encode_to_vec();
                floor.insert(&content).await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
            }
            Ok(Response::new(SendEmailResponse::default()))
        })
    }
}

/// The one method that is called; whatever is called is taken for it.
#[derive(Clone)]
struct BareService(Handler);

impl NamedService for BareService {
    const NAME: &'static str = "postrider.v1.EmailService";
}

impl tower::Service<http::Request<Body>> for BareService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move { Ok(Grpc::new(ProstCodec::default()).unary(handler, request).await) })
    }
}
