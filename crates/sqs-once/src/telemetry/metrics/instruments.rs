//! The metrics of batches on OpenTelemetry's instruments.

use std::collections::HashMap;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, global};

use crate::report::Outcome;
use crate::telemetry::spans::queue;

use super::{BatchMetrics, Group, Value, of_outcome};

/// Each count that is not of an outcome, with its instrument and its unit.
const COUNTERS: [(&str, &str, &str); 15] = [
    (
        "RecordsReceived",
        "messaging.client.consumed.messages",
        "{message}",
    ),
    ("Undecodable", "sqs_once.records.undecodable", "{record}"),
    ("PayloadMismatch", "sqs_once.payload_mismatches", "{record}"),
    ("OutcomeUnknown", "sqs_once.outcomes.unknown", "{record}"),
    ("LeaseLost", "sqs_once.leases.lost", "{lease}"),
    ("Deferred", "sqs_once.records.deferred", "{record}"),
    ("BreakerOpened", "sqs_once.breakers.opened", "{breaker}"),
    ("StoreRequests", "sqs_once.store.requests", "{request}"),
    ("StoreErrors", "sqs_once.store.errors", "{error}"),
    ("DeadlineHits", "sqs_once.deadline.hits", "{record}"),
    ("NoRoom", "sqs_once.records.no_room", "{record}"),
    ("Draining", "sqs_once.batches.draining", "{batch}"),
    ("BlockedGroups", "sqs_once.groups.blocked", "{group}"),
    ("StillRunning", "sqs_once.calls.still_running", "{call}"),
    ("ColdStart", "faas.coldstarts", "{coldstart}"),
];

/// Each metric with a value per message or call, with its instrument, its unit, and its bucket bounds.
const HISTOGRAMS: [(&str, &str, &str, &[f64]); 5] = [
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
    ("BlockAge", "sqs_once.group.block.age", "s", &AGES),
];
/// The buckets of OpenTelemetry's conventions, and longer ones for functions.
const DURATIONS: [f64; 17] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 60.0, 300.0,
    900.0,
];
/// Buckets up to fourteen days, the longest time that a queue keeps a message.
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

/// Created with the first batch, when the program has set its meter provider.
pub(super) struct Instruments {
    counters: HashMap<&'static str, (Counter<u64>, Option<&'static str>)>,
    histograms: HashMap<&'static str, Histogram<f64>>,
}

impl Default for Instruments {
    fn default() -> Self {
        let meter: Meter = global::meter("sqs-once");
        let counter = |name, unit| meter.u64_counter(name).with_unit(unit).build();
        let records = counter("sqs_once.records", "{record}");
        let outcomes = Outcome::ALL.map(|outcome| {
            let counted = (records.clone(), Some(outcome.as_str()));
            (of_outcome(outcome), counted)
        });
        let others = COUNTERS.map(|(metric, name, unit)| (metric, (counter(name, unit), None)));
        let histograms = HISTOGRAMS.map(|(metric, name, unit, bounds)| {
            let histogram = meter.f64_histogram(name).with_unit(unit);
            (metric, histogram.with_boundaries(bounds.to_vec()).build())
        });
        Self {
            counters: outcomes.into_iter().chain(others).collect(),
            histograms: histograms.into(),
        }
    }
}

impl Instruments {
    /// Keys, message ids and function versions are no attributes, as each of their values would create separate metrics.
    pub(super) fn record(&self, batch: &BatchMetrics, service: &str) {
        let mut attributes = vec![
            KeyValue::new("messaging.system", "aws_sqs"),
            KeyValue::new("messaging.operation.name", "process"),
            KeyValue::new("service", service.to_owned()),
        ];
        if let Some(arn) = &batch.queue_arn {
            let name = queue(arn).to_owned();
            attributes.push(KeyValue::new("messaging.destination.name", name));
        }
        for group in &batch.groups {
            let route = group.route.as_deref();
            let route = route.map(|route| KeyValue::new("sqs_once.route", route.to_owned()));
            let attributes: Vec<_> = attributes.iter().cloned().chain(route).collect();
            self.add(group, &attributes);
        }
    }

    fn add(&self, group: &Group, attributes: &[KeyValue]) {
        for (name, value) in &group.values {
            match value {
                Value::Count(count) => {
                    if let Some((counter, outcome)) = self.counters.get(name) {
                        let outcome = outcome.map(|it| KeyValue::new("sqs_once.outcome", it));
                        let all: Vec<_> = attributes.iter().cloned().chain(outcome).collect();
                        counter.add(*count, &all);
                    }
                }
                Value::Each(values) | Value::Durations(values) => {
                    let scale = match value {
                        Value::Durations(_) => 1000.0,
                        _ => 1.0,
                    };
                    if let Some(histogram) = self.histograms.get(name) {
                        for value in values {
                            histogram.record(value / scale, attributes);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::report::{RouteTally, Tally};

    #[test]
    fn every_metric_of_the_embedded_format_has_an_instrument_and_the_reverse() {
        let route = RouteTally {
            has_dependencies: true,
            outcomes_unknown: Some(0),
            ..RouteTally::default()
        };
        let tally = Tally {
            no_room: 1,
            is_draining: true,
            blocked: vec![Duration::ZERO],
            routes: vec![route],
            ..Tally::default()
        };
        let batch = BatchMetrics::of(&[], &[], tally, Duration::ZERO, false);
        let (counts, values): (Vec<_>, Vec<_>) = batch
            .groups
            .iter()
            .flat_map(|group| &group.values)
            .partition(|(_, value)| matches!(value, Value::Count(_)));
        let names = |of: Vec<&(&'static str, Value)>| -> BTreeSet<_> {
            of.into_iter().map(|(name, _)| *name).collect()
        };
        let Instruments {
            counters,
            histograms,
        } = Instruments::default();
        assert_eq!(names(counts), counters.into_keys().collect());
        assert_eq!(names(values), histograms.into_keys().collect());
    }
}
