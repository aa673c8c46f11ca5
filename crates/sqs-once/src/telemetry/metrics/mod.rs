//! Metrics of each batch.

mod emf;
#[cfg(feature = "opentelemetry")]
mod instruments;

use std::sync::Arc;
#[cfg(feature = "opentelemetry")]
use std::sync::OnceLock;
use std::time::Duration;

use crate::env::process_env;
use crate::record::Message;
use crate::report::{Outcome, Report, Tally};
use crate::time::Timestamp;

#[cfg(feature = "opentelemetry")]
use instruments::Instruments;

/// Where the metrics of each batch go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metrics {
    /// To stdout, as one line in CloudWatch's embedded metric format: CloudWatch makes metrics of it, without a
    /// request of the function's own.
    Emf,
    /// Nowhere.
    Off,
    /// To the instruments of OpenTelemetry's global meter provider, which the program sets before the consumer reads
    /// its settings. `docs/traces.md` lists them.
    #[cfg(feature = "opentelemetry")]
    OpenTelemetry,
}

/// The metrics of a batch: sums, or one value for each record.
pub(crate) struct BatchMetrics {
    values: Vec<Metric>,
    /// The ARN of the queue that its messages come from.
    #[cfg(feature = "opentelemetry")]
    queue_arn: Option<Arc<str>>,
}

struct Metric {
    name: &'static str,
    unit: Unit,
    value: Value,
}

#[derive(Clone, Copy)]
enum Unit {
    Count,
    Milliseconds,
}

enum Value {
    Count(u64),
    Each(Vec<f64>),
}

/// A batch as it ended.
pub(crate) struct Ended<'a> {
    pub(crate) messages: &'a [Seen],
    pub(crate) reports: &'a [Report],
    pub(crate) tally: Tally,
    pub(crate) duration: Duration,
    pub(crate) cold_start: bool,
}

/// The measurements of a message when its batch arrives.
pub(crate) struct Seen {
    age: Option<Duration>,
    receive_count: Option<u32>,
    #[cfg(feature = "opentelemetry")]
    queue_arn: Option<Arc<str>>,
}

impl Seen {
    pub(crate) fn of(message: &Message, now: Timestamp) -> Self {
        Self {
            age: message.sent_at().map(|sent_at| now.since(sent_at)),
            receive_count: message.receive_count(),
            #[cfg(feature = "opentelemetry")]
            queue_arn: message.shared_queue_arn(),
        }
    }
}

impl BatchMetrics {
    pub(crate) fn of(batch: Ended<'_>) -> Self {
        let outcomes = |outcome| {
            let such = batch
                .reports
                .iter()
                .filter(|report| report.outcome == outcome);
            such.count() as u64
        };
        let tally = batch.tally;
        let counts: [(&str, u64); 15] = [
            ("RecordsReceived", batch.messages.len() as u64),
            ("Processed", outcomes(Outcome::Processed)),
            ("Duplicates", outcomes(Outcome::Duplicate)),
            ("Ignored", outcomes(Outcome::Ignored)),
            ("Failed", outcomes(Outcome::Failed)),
            ("Terminal", outcomes(Outcome::Terminal)),
            ("InProgressConflicts", outcomes(Outcome::InProgress)),
            ("Undecodable", tally.undecodable),
            ("PayloadMismatch", tally.payload_mismatches),
            ("LeaseLost", tally.leases_lost),
            ("StoreRequests", tally.store_requests),
            ("StoreErrors", tally.store_errors),
            ("DeadlineHits", tally.deadline_hits),
            ("StillRunning", tally.still_running),
            ("ColdStart", u64::from(batch.cold_start)),
        ];
        let counts = counts.map(|(name, count)| Metric {
            name,
            unit: Unit::Count,
            value: Value::Count(count),
        });
        let ages = batch.messages.iter().filter_map(|seen| seen.age);
        let receive_counts = batch.messages.iter().filter_map(|seen| seen.receive_count);
        let times = [
            ("MessageAge", ages.map(millis).collect()),
            (
                "HandlerDuration",
                tally.handler_durations.into_iter().map(millis).collect(),
            ),
            ("BatchDuration", vec![millis(batch.duration)]),
        ];
        let times = times.map(|(name, values)| Metric {
            name,
            unit: Unit::Milliseconds,
            value: Value::Each(values),
        });
        let receive_counts = Metric {
            name: "ReceiveCount",
            unit: Unit::Count,
            value: Value::Each(receive_counts.map(f64::from).collect()),
        };
        let values = counts.into_iter().chain(times).chain([receive_counts]);
        Self {
            values: values.collect(),
            #[cfg(feature = "opentelemetry")]
            queue_arn: batch
                .messages
                .first()
                .and_then(|seen| seen.queue_arn.clone()),
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Where a consumer's metrics go, and under which name.
pub(crate) struct Meter {
    metrics: Metrics,
    namespace: Arc<str>,
    service: Arc<str>,
    #[cfg(feature = "opentelemetry")]
    instruments: OnceLock<Instruments>,
}

impl Meter {
    /// Without a setting, a function on Lambda writes them and nothing else does.
    pub(crate) fn new(
        metrics: Option<Metrics>,
        namespace: Option<&str>,
        service: Arc<str>,
    ) -> Self {
        let usual = match process_env("AWS_LAMBDA_FUNCTION_NAME") {
            Some(_) => Metrics::Emf,
            None => Metrics::Off,
        };
        let namespace = namespace.unwrap_or("sqs-once");
        Self {
            metrics: metrics.unwrap_or(usual),
            namespace: namespace.into(),
            service,
            #[cfg(feature = "opentelemetry")]
            instruments: OnceLock::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.metrics != Metrics::Off
    }

    /// Once a batch.
    pub(crate) fn flush(&self, batch: &BatchMetrics, now: Timestamp) {
        match self.metrics {
            Metrics::Emf => emf::write(batch, &self.namespace, &self.service, now),
            #[cfg(feature = "opentelemetry")]
            Metrics::OpenTelemetry => self
                .instruments
                .get_or_init(Instruments::default)
                .record(batch, &self.service),
            Metrics::Off => {}
        }
    }
}
