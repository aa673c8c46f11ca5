//! What each record came to. Every record counts as failed until it is entered here as done.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Span, error, error_span};

use crate::record::Message;
use crate::report::{Outcome, RecordLevels, Report, Tally};
use crate::store::{StoreError, StoreErrorKind};
use crate::telemetry::CONSUMER;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::record_line;

/// The reports of one batch. Shared with the edge, which answers from it when a handler that blocks
/// keeps the batch from ending.
#[derive(Clone)]
pub(crate) struct Ledger {
    messages: Arc<[Arc<Message>]>,
    is_fifo: bool,
    entries: Arc<Mutex<Entries>>,
    levels: RecordLevels,
    tally: Arc<Mutex<Tally>>,
    /// The kinds of the store's errors that the log has.
    logged: Arc<Mutex<HashSet<StoreErrorKind>>>,
}

struct Entries {
    reports: Vec<Option<Report>>,
    /// Those of the records that were taken up and have not ended.
    spans: Vec<Option<Span>>,
    /// How many records have no report yet.
    open: usize,
    closed: bool,
}

impl Ledger {
    pub(crate) fn new(messages: Arc<[Arc<Message>]>, levels: RecordLevels) -> Self {
        let reports = vec![None; messages.len()];
        Self {
            is_fifo: messages.iter().any(|message| message.is_fifo()),
            messages,
            levels,
            tally: Arc::default(),
            logged: Arc::default(),
            entries: Arc::new(Mutex::new(Entries {
                open: reports.len(),
                spans: vec![None; reports.len()],
                reports,
                closed: false,
            })),
        }
    }

    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(crate) fn is_fifo(&self) -> bool {
        self.is_fifo
    }

    /// The span of a record; none once it has ended. The handler's log lines are inside it.
    pub(crate) fn span(&self, index: usize) -> Span {
        let mut entries = self.entries();
        if entries.closed || entries.reports[index].is_some() {
            return Span::none();
        }
        let span = entries.spans[index].get_or_insert_with(|| begin(&self.messages[index]));
        span.clone()
    }

    /// Enters how a record ended, logs it, and ends its span. Only the first entry counts, and none after the answer.
    pub(crate) fn enter(&self, index: usize, mut report: Report) {
        let mut entries = self.entries();
        if !entries.closed && entries.reports[index].is_none() {
            let span = entries.spans[index].take();
            tell(&self.messages[index], &report, &self.levels, span);
            report.entered = Some(Instant::now());
            entries.reports[index] = Some(report);
            entries.open -= 1;
        }
    }

    /// The counts of the batch.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        // A count is one assignment: a panic can't leave one half done.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs the first error of each kind: a table that is missing fails every record of a batch, and is one line.
    pub(crate) fn log_once(&self, error: &StoreError) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.insert(error.kind()) {
            error!(target: "sqs_once::store", error = error.to_string(), "the store could not answer");
        }
    }

    pub(crate) fn outcome(&self, index: usize) -> Option<Report> {
        self.entries().reports[index].clone()
    }

    /// How many records have no report yet.
    pub(crate) fn open(&self) -> usize {
        self.entries().open
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.open() == 0
    }

    /// Ends the batch: every record without an entry has failed, for this reason.
    pub(crate) fn close(&self, reason: &str) -> Vec<Report> {
        let mut entries = self.entries();
        entries.closed = true;
        let Entries { reports, spans, .. } = &mut *entries;
        let messages = self.messages.iter().zip(spans);
        reports
            .iter()
            .zip(messages)
            .map(|(report, (message, span))| {
                report.clone().unwrap_or_else(|| {
                    let report = Report::new(Outcome::Failed).because(reason);
                    tell(message, &report, &self.levels, span.take());
                    report
                })
            })
            .collect()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // An entry is one assignment: a panic can't leave one half done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin(message: &Message) -> Span {
    let span = error_span!(
        "record",
        message_id = message.id(),
        key = Empty,
        correlation_id = Empty,
        otel.kind = CONSUMER,
    );
    #[cfg(feature = "opentelemetry")]
    spans::record_began(&span, message);
    span
}

/// Reports how a record ended in the log and in its span.
fn tell(message: &Message, report: &Report, levels: &RecordLevels, span: Option<Span>) {
    record_line::log(message, report, levels);
    #[cfg(feature = "opentelemetry")]
    spans::record_ended(&span.unwrap_or_else(|| begin(message)), message, report);
    #[cfg(not(feature = "opentelemetry"))]
    drop(span);
}
