//! What each record came to. Every record counts as failed until it is entered here as done.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Span, error_span};

use crate::key::ItemId;
use crate::record::Message;
use crate::telemetry::CONSUMER;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::line::{self, RecordLevels};
use super::tally::Tally;

/// The most bytes of a reason that are kept: an error's text has no limit of its own.
const MAX_REASON: usize = 1024;

/// What a record came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The handler ran, and that is on record. Acknowledged.
    Processed,
    /// The event was handled before. Acknowledged.
    Duplicate,
    /// There was no event in it, and nothing wrong with it, such as S3's test event: its
    /// [`Envelope`](crate::Envelope) says so. Acknowledged, without a handler.
    Ignored,
    /// Another worker is at it. Returned to the queue.
    InProgress,
    /// It did not work out this time. Returned to the queue.
    Failed,
    /// It never will: acknowledged if it was moved to the dead-letter queue, otherwise returned to
    /// the queue.
    Terminal,
}

impl Outcome {
    /// The name in logs: `processed`, `duplicate`, `ignored`, `in_progress`, `failed` or `terminal`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
            Self::InProgress => "in_progress",
            Self::Failed => "failed",
            Self::Terminal => "terminal",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A record's end.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    /// Whether the message may leave the queue.
    pub(crate) acknowledged: bool,
    /// It goes back to the queue as it came: nothing of it was tried.
    pub(crate) untried: bool,
    /// How long a message that goes back to the queue should stay away, if anybody wants that: from its
    /// own end, not from the batch's.
    pub(crate) wait: Option<Duration>,
    /// When it was entered, if it was.
    pub(crate) entered: Option<Instant>,
    /// How long it took from being taken up, if it was.
    pub(crate) duration: Option<Duration>,
    pub(crate) key: Option<ItemId>,
}

impl Report {
    pub(crate) fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            reason: None,
            acknowledged: matches!(
                outcome,
                Outcome::Processed | Outcome::Duplicate | Outcome::Ignored
            ),
            untried: false,
            wait: None,
            entered: None,
            duration: None,
            key: None,
        }
    }

    /// The end of a record that was not started.
    pub(crate) fn untried(reason: impl Into<String>) -> Self {
        Self {
            untried: true,
            ..Self::new(Outcome::Failed).because(reason)
        }
    }

    /// Whether it was tried in vain; one that another worker has, or that was not started, was not.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed | Outcome::Terminal) && !self.untried
    }

    pub(crate) fn wait(mut self, wait: Option<Duration>) -> Self {
        self.wait = wait;
        self
    }

    pub(crate) fn because(mut self, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        if reason.len() > MAX_REASON {
            reason.truncate(reason.floor_char_boundary(MAX_REASON));
            reason.push('…');
        }
        self.reason = Some(reason);
        self
    }
}

/// The reports of one batch. Shared with the edge, which answers from it when a handler that blocks
/// keeps the batch from ending.
#[derive(Clone)]
pub(crate) struct Ledger {
    messages: Arc<[Arc<Message>]>,
    entries: Arc<Mutex<Entries>>,
    levels: RecordLevels,
    tally: Arc<Mutex<Tally>>,
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
            messages,
            levels,
            tally: Arc::default(),
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

    /// The span of a record; none once it has ended. What the user's code logs of the record stands in it, errors
    /// on their own too.
    pub(crate) fn span(&self, index: usize) -> Span {
        let mut entries = self.entries();
        if entries.closed || entries.reports[index].is_some() {
            return Span::none();
        }
        let span = entries.spans[index].get_or_insert_with(|| begin(&self.messages[index]));
        span.clone()
    }

    /// Enters a record's end, logs it, and ends its span. The first entry stands; once the batch was answered none
    /// is taken.
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

    /// What is counted besides.
    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        // A count is one assignment: a panic can't leave one half done.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Says what a record came to: to the log, and in its span.
fn tell(message: &Message, report: &Report, levels: &RecordLevels, span: Option<Span>) {
    line::log(message, report, levels);
    #[cfg(feature = "opentelemetry")]
    spans::record_ended(&span.unwrap_or_else(|| begin(message)), message, report);
    #[cfg(not(feature = "opentelemetry"))]
    drop(span);
}
