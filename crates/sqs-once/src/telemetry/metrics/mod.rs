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
use crate::report::{Entry, Outcome, RouteTally, Tally};
use crate::telemetry::millis;
use crate::time::Timestamp;

#[cfg(feature = "opentelemetry")]
use instruments::Instruments;

/// Chooses where the metrics of each batch go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metrics {
    /// To stdout, as one line in CloudWatch's embedded metric format. CloudWatch creates metrics from it without a
    /// request from the function.
    Emf,
    /// Nowhere.
    Off,
    /// To the instruments of OpenTelemetry's global meter provider, which the program sets before the consumer reads
    /// its settings. `docs/traces.md` lists them.
    #[cfg(feature = "opentelemetry")]
    OpenTelemetry,
}

pub(crate) struct BatchMetrics {
    /// The metrics of the whole batch or of a consumer's only route, then of each route of a router.
    groups: Vec<Group>,
    #[cfg(feature = "opentelemetry")]
    queue_arn: Option<Arc<str>>,
}

/// Metrics with the same dimensions.
struct Group {
    /// The route in a router.
    route: Option<Arc<str>>,
    values: Vec<(&'static str, Value)>,
}

enum Value {
    Count(u64),
    Each(Vec<f64>),
    /// Milliseconds.
    Durations(Vec<f64>),
}

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
    pub(crate) fn of(
        messages: &[Seen],
        entries: &[Entry],
        tally: Tally,
        duration: Duration,
        cold_start: bool,
    ) -> Self {
        let of_batch = [
            ("StoreRequests", Value::Count(tally.store_requests)),
            ("StoreErrors", Value::Count(tally.store_errors)),
            ("DeadlineHits", Value::Count(tally.deadline_hits)),
            ("StillRunning", Value::Count(tally.still_running)),
            ("ColdStart", Value::Count(u64::from(cold_start))),
            ("BatchDuration", Value::Durations(vec![millis(duration)])),
        ];
        let mut of_batch = Vec::from(of_batch);
        // Each metric costs money, so these occur only with a trouble.
        if tally.no_room > 0 {
            of_batch.push(("NoRoom", Value::Count(tally.no_room)));
        }
        if tally.is_draining {
            of_batch.push(("Draining", Value::Count(1)));
        }
        if !tally.blocked.is_empty() {
            let ages = tally.blocked.iter().copied().map(millis);
            of_batch.push(("BlockedGroups", Value::Count(tally.blocked.len() as u64)));
            of_batch.push(("BlockAge", Value::Durations(ages.collect())));
        }
        let mut groups = Vec::new();
        for counts in tally.routes {
            let records = messages.iter().zip(entries);
            let records = records.filter(|(_, entry)| entry.route == counts.name);
            let records: Vec<_> = records.collect();
            if counts.name.is_some() && records.is_empty() {
                continue;
            }
            let route = counts.name.clone();
            let mut values = of_route(&records, counts);
            if route.is_none() {
                values.append(&mut of_batch);
            }
            groups.push(Group { route, values });
        }
        Self {
            groups,
            #[cfg(feature = "opentelemetry")]
            queue_arn: messages.first().and_then(|seen| seen.queue_arn.clone()),
        }
    }
}

/// Returns the metrics of the messages of one route.
fn of_route(records: &[(&Seen, &Entry)], tally: RouteTally) -> Vec<(&'static str, Value)> {
    let outcomes = Outcome::ALL.map(|outcome| {
        let count = records
            .iter()
            .filter(|(_, entry)| entry.report.outcome() == outcome);
        (of_outcome(outcome), count.count() as u64)
    });
    let others = [
        ("RecordsReceived", records.len() as u64),
        ("Undecodable", tally.undecodable),
        ("PayloadMismatch", tally.payload_mismatches),
        ("LeaseLost", tally.leases_lost),
    ];
    let unknown = tally.outcomes_unknown.map(|it| ("OutcomeUnknown", it));
    let of_dependencies = [
        ("Deferred", tally.deferred),
        ("BreakerOpened", tally.breakers_opened),
    ];
    // Each metric costs money, so only handlers with dependencies have these, as `OutcomeUnknown` needs its setting.
    let of_dependencies = of_dependencies
        .into_iter()
        .filter(|_| tally.has_dependencies);
    let counts = outcomes.into_iter().chain(others).chain(unknown);
    let counts = counts.chain(of_dependencies);
    let counts = counts.map(|(name, count)| (name, Value::Count(count)));
    let seen = || records.iter().map(|(seen, _)| seen);
    let ages = seen().filter_map(|seen| seen.age).map(millis).collect();
    let handlers = tally.handler_durations.into_iter().map(millis).collect();
    let receive_counts = seen().filter_map(|seen| seen.receive_count);
    let each = [
        ("MessageAge", Value::Durations(ages)),
        ("HandlerDuration", Value::Durations(handlers)),
        (
            "ReceiveCount",
            Value::Each(receive_counts.map(f64::from).collect()),
        ),
    ];
    counts.chain(each).collect()
}

/// The metric that counts the messages with an outcome.
fn of_outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Processed => "Processed",
        Outcome::Duplicate => "Duplicates",
        Outcome::Ignored => "Ignored",
        Outcome::Failed => "Failed",
        Outcome::Terminal => "Terminal",
        Outcome::InProgress => "InProgressConflicts",
    }
}

pub(crate) struct Meter {
    metrics: Metrics,
    namespace: Arc<str>,
    service: Arc<str>,
    #[cfg(feature = "opentelemetry")]
    instruments: OnceLock<Instruments>,
}

impl Meter {
    /// Creates a meter. Without a setting, metrics go to CloudWatch's format on Lambda, and nowhere elsewhere.
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
