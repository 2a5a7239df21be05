//! The gRPC server: the services, the layers round them, and how it stops.
//!
//! Owns the listening socket it is given; does not decide when to stop.

use std::{future::Future, time::Duration};

use http::Response;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status,
    body::Body,
    codec::CompressionEncoding,
    transport::server::{Router, Server, TcpIncoming},
};
use tower::util::MapResponseLayer;

use super::{
    deadline::DeadlineLayer,
    email::{Backend, EmailApi},
    operator::OperatorApi,
    readiness::Readiness,
    span::SpanLayer,
    status,
};
use crate::{
    config, proto,
    proto::v1::{email_service_server::EmailServiceServer, operator_service_server::OperatorServiceServer},
};

/// After how long without a frame a connection is asked whether it still lives, and how long its answer may take: a
/// client that vanished must not keep its connection for ever.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Why the server could not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptors for reflection cannot be used.
    #[error("the descriptors for reflection cannot be used")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The transport failed.
    #[error("the gRPC transport failed")]
    Transport(#[from] tonic::transport::Error),
}

/// The API of this process.
pub struct Api {
    services: Option<Services>,
    readiness: Readiness,
}

/// What answers calls.
#[derive(Clone)]
struct Services {
    email: EmailApi,
    operator: OperatorApi,
}

impl Api {
    /// The API over that backend.
    pub fn new(backend: Backend) -> Self {
        let operator = OperatorApi::new(backend.clone());
        let services = Services { email: EmailApi::new(backend), operator };
        Self { services: Some(services), readiness: Readiness::new(true) }
    }

    /// The API of a process that does something else: it answers for its health alone.
    pub fn of_health() -> Self {
        Self { services: None, readiness: Readiness::new(false) }
    }

    /// The switch behind `grpc.health.v1`.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Serves until `shutdown`; ends when every call has been answered and every commit finished, or `call_timeout`
    /// later.
    ///
    /// Whether it says SERVING is the caller's to switch. At `shutdown` it says NOT_SERVING, ends every watch, of health
    /// and of messages, and takes no more connections and no more calls on those it has.
    pub async fn serve(
        self,
        listener: TcpListener,
        settings: &config::Server,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self { services, readiness } = self;
        let stopping = CancellationToken::new();
        let signal = async {
            shutdown.await;
            readiness.set_not_serving().await;
            readiness.end_watches().await;
            if let Some(services) = &services {
                services.email.end_watches();
            }
            stopping.cancel();
        };
        let layered = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            // Outermost, so that the span also sees a deadline that passed.
            .layer(SpanLayer::new())
            // Outside the services, so that a slow upload counts too.
            .layer(DeadlineLayer::new(settings.call_timeout))
            // Innermost: only the services know this answer.
            .layer(MapResponseLayer::new(explain_refusals(settings.max_request_bytes)));
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let served = routes(layered, services.as_ref(), &readiness, settings.max_request_bytes)?
            .serve_with_incoming_shutdown(incoming, signal);
        let watched = async {
            if let Some(services) = &services {
                services.email.look_for_watchers().await;
            }
            std::future::pending().await
        };
        let drained = async {
            tokio::select! {
                served = served => served?,
                () = watched => {}
            }
            if let Some(services) = &services {
                services.email.commits_finished().await;
            }
            Ok(())
        };
        tokio::select! {
            drained = drained => drained,
            () = overdue(&stopping, settings.call_timeout) => {
                tracing::warn!("calls were still open when the time to stop was up");
                Ok(())
            }
        }
    }
}

/// Ends when the server was told to stop and that long has passed.
async fn overdue(stopping: &CancellationToken, limit: Duration) {
    stopping.cancelled().await;
    tokio::time::sleep(limit).await;
}

fn routes<L: Clone>(
    mut server: Server<L>,
    services: Option<&Services>,
    readiness: &Readiness,
    max_request_bytes: usize,
) -> Result<Router<L>, ServeError> {
    let router = server.add_service(readiness.service());
    let Some(Services { email, operator }) = services.cloned() else { return Ok(router) };
    let email = EmailServiceServer::new(email)
        .max_decoding_message_size(max_request_bytes)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    let operator = OperatorServiceServer::new(operator)
        .max_decoding_message_size(max_request_bytes)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    Ok(router
        .add_service(email)
        .add_service(operator)
        .add_service(reflection().build_v1()?)
        // Widely used clients, grpcurl 1.8 among them, ask by the older name only.
        .add_service(reflection().build_v1alpha()?))
}

/// The contract, the health protocol, and `google.rpc`'s details: without the last a client that learns types by
/// reflection cannot print what is wrong with a request.
fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

/// Gives the requests that tonic itself refuses an answer of ours. Its own have no details, by which they are told from
/// the services'.
///
/// A request that is too large has two with tonic, by whether it was compressed: OUT_OF_RANGE, and RESOURCE_EXHAUSTED,
/// which callers repeat. One whose bytes cannot be read has INTERNAL, as if the fault were ours.
fn explain_refusals(max_request_bytes: usize) -> impl Fn(Response<Body>) -> Response<Body> + Clone {
    move |response| {
        let refusal = Status::from_header_map(response.headers()).filter(|refusal| refusal.details().is_empty());
        match refusal.map(|refusal| refusal.code()) {
            Some(Code::OutOfRange | Code::ResourceExhausted) => {
                status::request_too_large(max_request_bytes).into_http()
            }
            Some(Code::Internal) => status::unreadable_request().into_http(),
            _ => response,
        }
    }
}
