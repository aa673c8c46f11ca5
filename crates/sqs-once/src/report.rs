//! Outcomes, counts and log levels: the data that `batch` collects and `telemetry` formats.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use crate::key::ItemId;

/// The longest reason in bytes. An error's text can have any length.
const MAX_REASON: usize = 1024;

/// How a record ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler ran, and its completion is recorded. Acknowledged.
    Processed,
    /// The event was handled before. Acknowledged.
    Duplicate,
    /// Its [`Envelope`](crate::body::Envelope) found no event in it, as in S3's test event. Acknowledged without
    /// calling a handler.
    Ignored,
    /// Another worker has claimed its key. Returned to the queue.
    InProgress,
    /// It failed this time. Returned to the queue.
    Failed,
    /// It failed, and no retry can help. Acknowledged if it was moved to the dead-letter queue, otherwise returned to the
    /// queue.
    Terminal,
}

impl Outcome {
    /// Every outcome, in the order of the metrics.
    pub(crate) const ALL: [Self; 6] = [
        Self::Processed,
        Self::Duplicate,
        Self::Ignored,
        Self::Failed,
        Self::Terminal,
        Self::InProgress,
    ];

    /// Returns the name in logs: `processed`, `duplicate`, `ignored`, `in_progress`, `failed` or `terminal`.
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

#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    /// Whether the message may leave the queue.
    pub(crate) acknowledged: bool,
    pub(crate) untried: bool,
    /// The dependency that was unavailable, if that is why the record returns.
    pub(crate) unavailable: Option<Arc<str>>,
    /// How long a message that returns to the queue should stay hidden, counted from the record's end.
    pub(crate) wait: Option<Duration>,
    pub(crate) entered: Option<Instant>,
    pub(crate) duration: Option<Duration>,
    pub(crate) key: Option<ItemId>,
    /// The name of the record's route in a router, once it is known.
    pub(crate) route: Option<Arc<str>>,
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
            unavailable: None,
            wait: None,
            entered: None,
            duration: None,
            key: None,
            route: None,
        }
    }

    pub(crate) fn untried(reason: impl Into<String>) -> Self {
        Self {
            untried: true,
            ..Self::new(Outcome::Failed).because(reason)
        }
    }

    /// Whether the record was tried and failed. A record that another worker has claimed was not tried.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed | Outcome::Terminal) && !self.untried
    }

    pub(crate) fn unavailable(mut self, dependency: Arc<str>) -> Self {
        self.unavailable = Some(dependency);
        self
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

/// The levels of records' log lines that a setting has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordLevels(Vec<(Outcome, Level)>);

impl RecordLevels {
    pub(crate) fn set(&mut self, outcome: Outcome, level: Level) {
        self.0.retain(|(set, _)| *set != outcome);
        self.0.push((outcome, level));
    }

    /// Parses text such as `processed=debug,duplicate=debug`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut levels = Self::default();
        for pair in text.split(',') {
            let (name, level) = pair.split_once('=')?;
            let mut outcomes = Outcome::ALL.into_iter();
            let outcome = outcomes.find(|outcome| outcome.as_str() == name.trim())?;
            levels.set(outcome, level.trim().parse().ok()?);
        }
        Some(levels)
    }

    pub(crate) fn level_of(&self, report: &Report) -> Level {
        let set = self
            .0
            .iter()
            .find(|(outcome, _)| *outcome == report.outcome);
        let level = set.map_or_else(|| default_level(report.outcome), |(_, level)| *level);
        // A success with a reason is a warning.
        match report.outcome {
            Outcome::Processed | Outcome::Duplicate if report.reason.is_some() => {
                level.min(Level::WARN)
            }
            _ => level,
        }
    }
}

fn default_level(outcome: Outcome) -> Level {
    match outcome {
        Outcome::Processed | Outcome::Duplicate | Outcome::Ignored | Outcome::InProgress => {
            Level::INFO
        }
        Outcome::Failed => Level::WARN,
        Outcome::Terminal => Level::ERROR,
    }
}

/// What a batch counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests to the store. One that the store itself splits or repeats counts once.
    pub(crate) store_requests: u64,
    /// Keys for which the store had no answer, counted at each attempt.
    pub(crate) store_errors: u64,
    /// Records that had no outcome when the deadline came.
    pub(crate) deadline_hits: u64,
    /// Calls of the handler, and blocking code that it started, that still ran when the batch was answered.
    pub(crate) still_running: u64,
    /// Records that returned without a call, because cancelled handlers' blocking code held every place, or bodies all memory.
    pub(crate) no_room: u64,
    /// The counts of each route.
    pub(crate) routes: Vec<RouteTally>,
}

/// What a batch counts for the records of one route. A consumer without a router has one route.
#[derive(Debug, Default)]
pub(crate) struct RouteTally {
    /// The name of the route in a router.
    pub(crate) name: Option<Arc<str>>,
    /// Records whose envelope, body, key or fingerprint could not be read.
    pub(crate) undecodable: u64,
    /// Records whose key was completed for another payload.
    pub(crate) payload_mismatches: u64,
    /// Records whose handler succeeded after another worker had taken over their key.
    pub(crate) leases_lost: u64,
    /// Whether the route depends on anything.
    pub(crate) has_dependencies: bool,
    /// Records that were returned without a call, because a dependency was unavailable.
    pub(crate) deferred: u64,
    /// Breakers that this batch opened, and probes of it that failed.
    pub(crate) breakers_opened: u64,
    pub(crate) handler_durations: Vec<Duration>,
}
