//! Ships every order in a queue, once, and sends spans and metrics to a collector over OTLP.
//!
//! The default collector is on the same machine, as in the layers of OpenTelemetry and AWS.
//! `OTEL_EXPORTER_OTLP_ENDPOINT` sets another one, and `OTEL_SERVICE_NAME` sets the service's name.

use opentelemetry::global;
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::Deserialize;
use sqs_once::policy::PayloadMismatch;
use sqs_once::telemetry::Metrics;
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

/// Has its own span, inside the record's span.
#[tracing::instrument]
async fn print_labels(parcels: u32) {
    tokio::task::yield_now().await;
}

/// The providers to flush before Lambda freezes the process.
struct Telemetry {
    spans: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Sets the global providers. Call it before the consumer starts, since the consumer uses them.
    fn set_up() -> Result<Self, Error> {
        let spans = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .build()?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .build()?;
        let telemetry = Self {
            spans: SdkTracerProvider::builder()
                .with_batch_exporter(spans)
                .build(),
            metrics: SdkMeterProvider::builder()
                .with_periodic_exporter(metrics)
                .build(),
        };
        global::set_tracer_provider(telemetry.spans.clone());
        global::set_meter_provider(telemetry.metrics.clone());
        Ok(telemetry)
    }

    fn flush(&self) {
        if let Err(error) = self.spans.force_flush() {
            tracing::warn!(error = error.to_string(), "spans were not sent");
        }
        if let Err(error) = self.metrics.force_flush() {
            tracing::warn!(error = error.to_string(), "metrics were not sent");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let telemetry = Telemetry::set_up()?;
    let consumer = ship::consumer()
        .payload_mismatch(PayloadMismatch::Reject)
        .metrics(Metrics::OpenTelemetry)
        .after_answer(move || telemetry.flush());
    sqs_once::run(consumer).await
}
