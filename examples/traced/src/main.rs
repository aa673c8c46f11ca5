//! Ships every order in a queue, once, and sends spans and metrics to a collector over OTLP.
//!
//! The default collector is on the same machine. `OTEL_EXPORTER_OTLP_ENDPOINT` sets another one.

use opentelemetry::global;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::Deserialize;
use sqs_once::telemetry::{Metrics, Telemetry};
use sqs_once::{Error, HandlerError};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    parcels: u32,
}

/// Prints the labels of an order's parcels.
#[sqs_once::handler(key = order.order_id, namespace = "traced")]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    if order.parcels == 0 {
        return Err("the warehouse has not packed it yet".into());
    }
    print_labels(order.parcels).await;
    Ok(())
}

/// Has its own span, inside the message's span.
#[tracing::instrument]
async fn print_labels(parcels: u32) {
    tokio::task::yield_now().await;
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // For a collector over HTTPS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder().with_http().build()?;
    let spans = SdkTracerProvider::builder();
    let spans = spans.with_batch_exporter(exporter).build();
    let exporter = MetricExporter::builder().with_http().build()?;
    let metrics = SdkMeterProvider::builder().with_periodic_exporter(exporter);
    let metrics = metrics.build();
    // Before the consumer starts, since it uses them.
    global::set_tracer_provider(spans.clone());
    global::set_meter_provider(metrics.clone());
    let telemetry = Telemetry::new()
        .metrics(Metrics::OpenTelemetry)
        // Lambda freezes the process soon after the answer.
        .after_answer(move || {
            if let Err(error) = spans.force_flush().and(metrics.force_flush()) {
                tracing::warn!(error = error.to_string(), "not everything was sent");
            }
        });
    sqs_once::run(ship::consumer().telemetry(telemetry)).await
}
