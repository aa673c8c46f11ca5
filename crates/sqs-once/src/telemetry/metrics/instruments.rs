//! The metrics of batches on OpenTelemetry's instruments.

use std::collections::HashMap;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};

use crate::telemetry::spans::queue;

use super::{BatchMetrics, Unit, Value};

/// For each count its instrument, the unit, and the outcome that it counts, where it counts one.
const COUNTERS: [(&str, &str, &str, Option<&str>); 15] = [
    (
        "RecordsReceived",
        "messaging.client.consumed.messages",
        "{message}",
        None,
    ),
    ("Processed", RECORDS, "{record}", Some("processed")),
    ("Duplicates", RECORDS, "{record}", Some("duplicate")),
    ("Ignored", RECORDS, "{record}", Some("ignored")),
    ("Failed", RECORDS, "{record}", Some("failed")),
    ("Terminal", RECORDS, "{record}", Some("terminal")),
    (
        "InProgressConflicts",
        RECORDS,
        "{record}",
        Some("in_progress"),
    ),
    (
        "Undecodable",
        "sqs_once.records.undecodable",
        "{record}",
        None,
    ),
    (
        "PayloadMismatch",
        "sqs_once.payload_mismatches",
        "{record}",
        None,
    ),
    ("LeaseLost", "sqs_once.leases.lost", "{lease}", None),
    (
        "StoreRequests",
        "sqs_once.store.requests",
        "{request}",
        None,
    ),
    ("StoreErrors", "sqs_once.store.errors", "{error}", None),
    ("DeadlineHits", "sqs_once.deadline.hits", "{record}", None),
    (
        "StillRunning",
        "sqs_once.calls.still_running",
        "{call}",
        None,
    ),
    ("ColdStart", "faas.coldstarts", "{coldstart}", None),
];
const RECORDS: &str = "sqs_once.records";

/// For each metric with a value a record or a call its instrument, the unit, and the bounds of its buckets.
const HISTOGRAMS: [(&str, &str, &str, &[f64]); 4] = [
    ("MessageAge", "sqs_once.message.age", "s", &AGES),
    (
        "ReceiveCount",
        "sqs_once.message.receive_count",
        "{delivery}",
        &[1.0, 2.0, 3.0, 5.0, 10.0, 100.0],
    ),
    (
        "HandlerDuration",
        "messaging.process.duration",
        "s",
        &DURATIONS,
    ),
    ("BatchDuration", "sqs_once.batch.duration", "s", &DURATIONS),
];
/// The buckets of the conventions, and longer ones for functions.
const DURATIONS: [f64; 17] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 60.0, 300.0,
    900.0,
];
/// Up to the fourteen days that a queue keeps a message.
const AGES: [f64; 11] = [
    0.1,
    0.5,
    1.0,
    5.0,
    30.0,
    60.0,
    300.0,
    3600.0,
    21_600.0,
    86_400.0,
    1_209_600.0,
];

/// Made with the first batch, so that the program has set its meter provider.
pub(super) struct Instruments {
    counters: HashMap<&'static str, (Counter<u64>, Option<&'static str>)>,
    histograms: HashMap<&'static str, Histogram<f64>>,
}

impl Default for Instruments {
    fn default() -> Self {
        let meter: Meter = global::meter("sqs-once");
        let counters = COUNTERS.map(|(metric, name, unit, outcome)| {
            let counter = meter.u64_counter(name).with_unit(unit).build();
            (metric, (counter, outcome))
        });
        let histograms = HISTOGRAMS.map(|(metric, name, unit, bounds)| {
            let histogram = meter.f64_histogram(name).with_unit(unit);
            (metric, histogram.with_boundaries(bounds.to_vec()).build())
        });
        Self {
            counters: counters.into(),
            histograms: histograms.into(),
        }
    }
}

impl Instruments {
    /// No key, message id or function version is an attribute: each of their values would be metrics of its own.
    pub(super) fn record(&self, batch: &BatchMetrics, service: &str) {
        let mut attributes = vec![
            KeyValue::new("messaging.system", "aws_sqs"),
            KeyValue::new("messaging.operation.name", "process"),
            KeyValue::new("service", service.to_owned()),
        ];
        if let Some(arn) = &batch.queue_arn {
            attributes.push(KeyValue::new(
                "messaging.destination.name",
                queue(arn).to_owned(),
            ));
        }
        for metric in &batch.values {
            match &metric.value {
                Value::Count(count) => {
                    if let Some((counter, outcome)) = self.counters.get(metric.name) {
                        let outcome = outcome.map(|it| KeyValue::new("sqs_once.outcome", it));
                        let all: Vec<_> = attributes.iter().cloned().chain(outcome).collect();
                        counter.add(*count, &all);
                    }
                }
                Value::Each(values) => {
                    let scale = match metric.unit {
                        Unit::Count => 1.0,
                        Unit::Milliseconds => 1000.0,
                    };
                    if let Some(histogram) = self.histograms.get(metric.name) {
                        for value in values {
                            histogram.record(value / scale, &attributes);
                        }
                    }
                }
            }
        }
    }
}
