//! The entry of each record. A record without one counts as failed.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lambda_runtime::Context;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Level, Span, debug, error, error_span, info, trace, warn};

use crate::idempotency::short_group;
use crate::key::ItemId;
use crate::record::{CorrelationId, Message};
use crate::report::{Code, Entry, Outcome, RecordLevels, Report, RouteTally, Tally};
use crate::store::{StoreError, StoreErrorKind};
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;
use crate::telemetry::{CONSUMER, RECORD, millis};

use super::held::Held;

/// The reports of one batch. They make the answer even if a blocking handler keeps the batch from ending.
#[derive(Clone)]
pub(crate) struct Ledger {
    pub(super) messages: Arc<[Arc<Message>]>,
    pub(super) invocation: Arc<Context>,
    pub(super) is_fifo: bool,
    entries: Arc<Mutex<Entries>>,
    levels: RecordLevels,
    tally: Arc<Mutex<Tally>>,
    /// The claims whose handlers run.
    pub(super) held: Held,
    /// The kinds of store errors that were logged.
    logged: Arc<Mutex<HashSet<StoreErrorKind>>>,
}

struct Entries {
    ended: Vec<Option<Entry>>,
    /// The spans of records that have started and not ended.
    spans: Vec<Option<Span>>,
    /// The number of records without a report.
    open: usize,
    closed: bool,
}

impl Ledger {
    pub(crate) fn new(
        messages: Arc<[Arc<Message>]>,
        invocation: Context,
        levels: RecordLevels,
        routes: Vec<RouteTally>,
    ) -> Self {
        let ended = vec![None; messages.len()];
        Self {
            is_fifo: messages.iter().any(|message| message.is_fifo()),
            messages,
            invocation: Arc::new(invocation),
            levels,
            tally: Arc::new(Mutex::new(Tally {
                routes,
                ..Tally::default()
            })),
            held: Held::default(),
            logged: Arc::default(),
            entries: Arc::new(Mutex::new(Entries {
                open: ended.len(),
                spans: vec![None; ended.len()],
                ended,
                closed: false,
            })),
        }
    }

    /// Returns the span of a record, which contains its handler's log lines; an empty span once the record has ended.
    pub(crate) fn span(&self, index: usize) -> Span {
        let mut entries = self.entries();
        if entries.closed || entries.ended[index].is_some() {
            return Span::none();
        }
        let span = entries.spans[index].get_or_insert_with(|| begin(&self.messages[index]));
        span.clone()
    }

    /// Enters a record, logs it, and ends its span. Ignores further entries, and entries after the answer.
    pub(crate) fn enter(&self, index: usize, mut entry: Entry) {
        let mut entries = self.entries();
        if !entries.closed && entries.ended[index].is_none() {
            let span = entries.spans[index].take();
            log_end(&self.messages[index], &entry, &self.levels, span);
            entry.entered = Some(Instant::now());
            entries.ended[index] = Some(entry);
            entries.open -= 1;
        }
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        // A panic can't leave a count half updated, because each update is one assignment.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the counts of a route.
    pub(super) fn count(&self, route: usize, change: impl FnOnce(&mut RouteTally)) {
        self.tally().routes.get_mut(route).map(change);
    }

    /// Logs the first error of each kind. A missing table fails every record of a batch but is logged once.
    pub(crate) fn log_once(&self, error: &StoreError) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(error.kind()) {
            error!(target: "sqs_once::store", error = error.to_string(), "the store could not answer");
        }
    }

    pub(crate) fn report(&self, index: usize) -> Option<Report> {
        let entries = self.entries();
        entries.ended[index].as_ref().map(|one| one.report.clone())
    }

    pub(crate) fn open(&self) -> usize {
        self.entries().open
    }

    /// Ends the batch. Records without a report fail with `reason`.
    pub(crate) fn close(&self, reason: &str) -> Vec<Entry> {
        let mut entries = self.entries();
        entries.closed = true;
        let Entries { ended, spans, .. } = &mut *entries;
        let messages = self.messages.iter().zip(spans);
        ended
            .iter()
            .zip(messages)
            .map(|(entry, (message, span))| {
                entry.clone().unwrap_or_else(|| {
                    let entry = Entry::new(Report::failed(Code::NoOutcome.because(reason)));
                    log_end(message, &entry, &self.levels, span.take());
                    entry
                })
            })
            .collect()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // A panic can't leave an entry half written, because each is one assignment.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin(message: &Message) -> Span {
    let span = error_span!(
        "record",
        message_id = message.id(),
        key = Empty,
        route = Empty,
        correlation_id = Empty,
        otel.kind = CONSUMER,
    );
    #[cfg(feature = "opentelemetry")]
    spans::record_began(&span, message);
    span
}

fn log_end(message: &Message, entry: &Entry, levels: &RecordLevels, span: Option<Span>) {
    log(message, entry, levels);
    #[cfg(feature = "opentelemetry")]
    spans::record_ended(&span.unwrap_or_else(|| begin(message)), message, entry);
    #[cfg(not(feature = "opentelemetry"))]
    drop(span);
}

fn log(record: &Message, entry: &Entry, levels: &RecordLevels) {
    let report = &entry.report;
    let message = match report.outcome() {
        Outcome::Processed => "message processed",
        Outcome::Duplicate => "message duplicate",
        Outcome::Ignored => "message ignored",
        Outcome::InProgress => "message in progress",
        Outcome::Failed => "message failed",
        Outcome::Terminal => "message terminal",
    };
    macro_rules! line {
        ($level:ident) => {
            $level!(
                target: RECORD,
                outcome = report.outcome().as_str(),
                message_id = record.id(),
                duration_ms = entry.duration.map(millis),
                code = report.code().map(Code::as_str),
                reason = report.reason(),
                key = entry.key.as_ref().map(ItemId::short),
                route = entry.route.as_deref(),
                correlation_id = record.correlation_id().map(CorrelationId::as_str),
                receive_count = record.receive_count(),
                group = short_group(record),
                sequence = sequence(record),
                message,
            )
        };
    }
    match levels.level_of(report) {
        Level::ERROR => line!(error),
        Level::WARN => line!(warn),
        Level::INFO => line!(info),
        Level::DEBUG => line!(debug),
        Level::TRACE => line!(trace),
    }
}

/// A FIFO queue's number for the message's place in its group.
fn sequence(message: &Message) -> Option<&str> {
    message
        .is_fifo()
        .then(|| message.system_attribute("SequenceNumber"))?
}
