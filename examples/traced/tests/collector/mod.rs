//! A collector that stores the requests that it receives.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
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
    pub(crate) fn stop(self) {
        self.server.abort();
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.received.traces.lock().unwrap().clone();
        let resources = requests
            .into_iter()
            .flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let requests = self.received.metrics.lock().unwrap().clone();
        let resources = requests
            .into_iter()
            .flat_map(|request| request.resource_metrics);
        let scopes = resources.flat_map(|resource| resource.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    }

    /// The services of the received spans.
    pub(crate) fn services(&self) -> Vec<String> {
        let requests = self.received.traces.lock().unwrap().clone();
        let resources = requests
            .into_iter()
            .flat_map(|request| request.resource_spans);
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

fn find<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a any_value::Value> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    let Some(AnyValue { value }) = &found.value else {
        return None;
    };
    value.as_ref()
}

/// The value of a string attribute.
pub(crate) fn value(attributes: &[KeyValue], name: &str) -> Option<String> {
    match find(attributes, name)? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        other => panic!("{name} is no text: {other:?}"),
    }
}

pub(crate) fn attribute<'a>(span: &'a Span, name: &str) -> Option<&'a any_value::Value> {
    find(&span.attributes, name)
}

pub(crate) fn text(span: &Span, name: &str) -> String {
    value(&span.attributes, name).unwrap_or_else(|| panic!("{name} is missing: {span:#?}"))
}

pub(crate) fn number(span: &Span, name: &str) -> i64 {
    match attribute(span, name) {
        Some(any_value::Value::IntValue(number)) => *number,
        other => panic!("{name} is no number: {other:?}"),
    }
}

pub(crate) fn count(point: &NumberDataPoint) -> i64 {
    match point.value {
        Some(number_data_point::Value::AsInt(count)) => count,
        other => panic!("no count: {other:?}"),
    }
}

/// The only span of a batch of `messages` messages.
pub(crate) fn batch(spans: &[Span], messages: i64) -> &Span {
    let is_it = |span: &&Span| match attribute(span, "messaging.batch.message_count") {
        Some(any_value::Value::IntValue(count)) => *count == messages,
        _ => false,
    };
    let mut batches = spans.iter().filter(is_it);
    let batch = batches.next().unwrap();
    assert!(batches.next().is_none());
    batch
}

/// The only span of a record.
pub(crate) fn record<'a>(spans: &'a [Span], id: &str) -> &'a Span {
    let is_its =
        |span: &&Span| value(&span.attributes, "messaging.message.id").as_deref() == Some(id);
    let mut records = spans.iter().filter(is_its);
    let record = records.next().unwrap_or_else(|| panic!("{id} has no span"));
    assert!(records.next().is_none());
    record
}

pub(crate) fn spans_named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
