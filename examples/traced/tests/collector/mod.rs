//! A collector that stores the requests that it receives.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, number_data_point};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

#[derive(Clone, Default)]
struct Received {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
}

/// An OTLP server over HTTP with Protocol Buffers, on its own port.
pub(crate) struct Collector {
    received: Received,
    address: String,
    server: JoinHandle<()>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let received = Received::default();
        let app = Router::new()
            .route("/v1/traces", post(traces))
            .route("/v1/metrics", post(metrics))
            .with_state(received.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            received,
            address,
            server,
        }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops listening.
    pub(crate) fn stop(&self) {
        self.server.abort();
    }

    fn resource_spans(&self) -> impl Iterator<Item = ResourceSpans> {
        let requests = self.received.traces.lock().unwrap().clone().into_iter();
        requests.flat_map(|request| request.resource_spans)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let resources = self.resource_spans();
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let requests = self.received.metrics.lock().unwrap().clone().into_iter();
        let resources = requests.flat_map(|request| request.resource_metrics);
        let scopes = resources.flat_map(|resource| resource.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    }

    /// Returns the services of the received spans.
    pub(crate) fn services(&self) -> Vec<String> {
        let resources = self.resource_spans();
        let names =
            resources.filter_map(|spans| value(&spans.resource?.attributes, "service.name"));
        let mut names: Vec<_> = names.collect();
        names.dedup();
        names
    }
}

async fn traces(State(received): State<Received>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    received.traces.lock().unwrap().push(request);
}

async fn metrics(State(received): State<Received>, body: Bytes) {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    received.metrics.lock().unwrap().push(request);
}

/// Returns the value of a string attribute.
pub(crate) fn value(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.clone()?.value? {
        any_value::Value::StringValue(text) => Some(text),
        other => panic!("{name} is not text: {other:?}"),
    }
}

pub(crate) fn count(point: &NumberDataPoint) -> i64 {
    match point.value {
        Some(number_data_point::Value::AsInt(count)) => count,
        other => panic!("not a count: {other:?}"),
    }
}
