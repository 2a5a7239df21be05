//! A collector that keeps what it is sent.
//!
//! Owns the receiving end of OTLP over gRPC, nothing else of a collector.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{KeyValue, any_value},
    metrics::v1::{Metric, ResourceMetrics, metric, number_data_point},
    trace::v1::{ResourceSpans, Span},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, codec::CompressionEncoding, transport::Server};

/// What has arrived.
#[derive(Clone, Default)]
pub struct Received(Arc<Mutex<Vec<ResourceSpans>>>, Arc<Mutex<Vec<ResourceMetrics>>>);

impl Received {
    /// The last values of a gauge or a counter, each with the texts of its attributes.
    pub fn values(&self, name: &str) -> Vec<(Vec<String>, i64)> {
        let received = self.1.lock().unwrap();
        let mut metrics = received.iter().flat_map(|of| &of.scope_metrics).flat_map(|of| &of.metrics);
        let last: Option<&Metric> = metrics.rfind(|metric| metric.name == name);
        let points = match last.and_then(|metric| metric.data.as_ref()) {
            Some(metric::Data::Gauge(gauge)) => &gauge.data_points,
            Some(metric::Data::Sum(sum)) => &sum.data_points,
            _ => return Vec::new(),
        };
        let values = points.iter().map(|point| {
            let keys: Vec<&str> = point.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
            let texts = keys.iter().filter_map(|key| attribute(&point.attributes, key)).collect();
            match point.value {
                Some(number_data_point::Value::AsInt(value)) => (texts, value),
                other => panic!("{name} is {other:?}"),
            }
        });
        values.collect()
    }

    /// Every span, in no order that means something.
    pub fn spans(&self) -> Vec<Span> {
        let received = self.0.lock().unwrap();
        received.iter().flat_map(|of| &of.scope_spans).flat_map(|of| of.spans.clone()).collect()
    }

    /// The span of that name, which must be the only one.
    pub fn span(&self, name: &str) -> Span {
        let mut named: Vec<Span> = self.spans().into_iter().filter(|span| span.name == name).collect();
        assert_eq!(named.len(), 1, "{name} among {:?}", self.names());
        named.remove(0)
    }

    /// The names of the spans, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.spans().into_iter().map(|span| span.name).collect();
        names.sort();
        names
    }

    /// What the sender says of itself.
    pub fn resource(&self, key: &str) -> Option<String> {
        let received = self.0.lock().unwrap();
        attribute(&received.first()?.resource.as_ref()?.attributes, key)
    }
}

/// The text of an attribute.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    match value {
        any_value::Value::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().extend(request.into_inner().resource_spans);
        Ok(Response::new(ExportTraceServiceResponse { partial_success: None }))
    }
}

#[tonic::async_trait]
impl MetricsService for Received {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.1.lock().unwrap().extend(request.into_inner().resource_metrics);
        Ok(Response::new(ExportMetricsServiceResponse { partial_success: None }))
    }
}

/// Starts a collector.
pub async fn start() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Received::default();
    let service = TraceServiceServer::new(received.clone()).accept_compressed(CompressionEncoding::Gzip);
    let metrics = MetricsServiceServer::new(received.clone()).accept_compressed(CompressionEncoding::Gzip);
    let server = Server::builder().add_service(service).add_service(metrics);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, received)
}
