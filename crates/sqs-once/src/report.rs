//! Outcomes, reasons, counts and log levels: the data that `batch` collects and `telemetry` formats.

mod code;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use crate::key::ItemId;

pub(crate) use code::{Code, Reason};

/// The longest reason in bytes. An error's text can have any length.
const MAX_REASON: usize = 1024;

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler ran, and its key is completed. Acknowledged.
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

/// How a message ended, with what belongs to that end.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Processed {
        warning: Option<Reason>,
    },
    Duplicate {
        warning: Option<Reason>,
    },
    Ignored {
        reason: String,
    },
    InProgress {
        reason: String,
        /// How long the message should stay hidden, as in [`Returned`].
        wait: Option<Duration>,
    },
    /// It was tried.
    Failed(Returned),
    /// It returns without a call of its handler. Its outcome is `failed`, too.
    Untried(Untried, Returned),
    Terminal {
        reason: Reason,
        /// Whether it is in the dead-letter queue. Otherwise it returns to its queue.
        is_moved: bool,
        /// The dependency that was unavailable on its last delivery.
        lacks: Option<Arc<str>>,
    },
}

/// A message that failed and returns to its queue.
#[derive(Clone, Debug)]
pub(crate) struct Returned {
    reason: Reason,
    /// How long the message should stay hidden, counted from its end.
    pub(crate) wait: Option<Duration>,
    /// The dependency that was unavailable, if that is why it returns.
    lacks: Option<Arc<str>>,
}

/// Why a message returns to its queue without a call of its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Untried {
    NotStarted,
    Unread,
    BreakerOpen,
    /// Nothing else of the batch can free a place for it.
    Overrun,
    NoMemory,
    /// The completions of its batch fail.
    Unrecordable,
    GroupStopped,
    CopyFailed,
    ClaimedTooLate,
    CallMade,
    BehindUndecided,
    BehindCopy,
    OrderUnknown,
}

impl Untried {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NotStarted => "the deadline came before it was started",
            Self::Unread => "the deadline came before its payload was there",
            Self::BreakerOpen => "its breaker is open",
            Self::Overrun => "blocking code of cancelled handlers goes on, and holds every place",
            Self::NoMemory => "the bodies of its batch leave no memory for its own body",
            Self::Unrecordable => "keys can't be completed: it was not started",
            Self::GroupStopped => "an earlier message of its group failed",
            Self::CopyFailed => "the message with the same key in this batch failed",
            Self::ClaimedTooLate => "its key could not be claimed in half of the batch's time",
            Self::CallMade => "its batch had begun before its key could be claimed",
            Self::BehindUndecided => {
                "an earlier message of its group was not decided in half of the batch's time"
            }
            Self::BehindCopy => {
                "an earlier message of its group has the key of another message, which was not done yet"
            }
            Self::OrderUnknown => {
                "whether its group is behind a dead letter is not known, or its queue's settings can't keep the order"
            }
        }
    }

    const fn code(self) -> Code {
        match self {
            Self::NotStarted => Code::NotStarted,
            Self::Unread => Code::BodyNotFetched,
            Self::BreakerOpen => Code::Unavailable,
            Self::Overrun | Self::NoMemory => Code::NoRoom,
            Self::ClaimedTooLate | Self::CallMade => Code::NotClaimed,
            Self::Unrecordable
            | Self::GroupStopped
            | Self::CopyFailed
            | Self::BehindUndecided
            | Self::BehindCopy => Code::EarlierMessage,
            Self::OrderUnknown => Code::OrderUnknown,
        }
    }

    pub(crate) fn reason(self) -> Reason {
        self.code().because(self.as_str())
    }

    /// Whether the process had no room for the message.
    pub(crate) const fn has_no_room(self) -> bool {
        matches!(self, Self::Overrun | Self::NoMemory)
    }
}

impl Report {
    pub(crate) const PROCESSED: Self = Self::Processed { warning: None };
    pub(crate) const DUPLICATE: Self = Self::Duplicate { warning: None };

    pub(crate) fn failed(reason: Reason) -> Self {
        Self::Failed(Returned::because(reason))
    }

    pub(crate) fn untried(why: Untried) -> Self {
        Self::Untried(why, Returned::because(why.reason()))
    }

    /// Hides a message that returns to its queue.
    pub(crate) fn hidden(mut self, wait: Option<Duration>) -> Self {
        if let Self::Failed(returned) | Self::Untried(_, returned) = &mut self {
            returned.wait = wait;
        }
        self
    }

    /// Names the dependency without which the message returns.
    pub(crate) fn lacking(mut self, dependency: &Arc<str>) -> Self {
        if let Self::Failed(returned) | Self::Untried(_, returned) = &mut self {
            let text = format!("unavailable: {dependency}: {}", returned.reason);
            returned.reason = Code::Unavailable.because(text);
            returned.lacks = Some(Arc::clone(dependency));
        }
        self
    }

    /// Adds warnings to the reason, and shortens it for the log. The code stays that of the first part.
    pub(crate) fn warned(mut self, warnings: Vec<Reason>) -> Self {
        let mut warnings = warnings.into_iter();
        let text = match &mut self {
            Self::Processed { warning } | Self::Duplicate { warning } => {
                if warning.is_none() {
                    *warning = warnings.next();
                }
                match warning {
                    Some(warning) => &mut warning.text,
                    None => return self,
                }
            }
            Self::Ignored { reason } | Self::InProgress { reason, .. } => reason,
            Self::Terminal { reason, .. } => &mut reason.text,
            Self::Failed(returned) | Self::Untried(_, returned) => &mut returned.reason.text,
        };
        for warning in warnings {
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&warning.text);
        }
        *text = shortened(std::mem::take(text));
        self
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Processed { .. } => Outcome::Processed,
            Self::Duplicate { .. } => Outcome::Duplicate,
            Self::Ignored { .. } => Outcome::Ignored,
            Self::InProgress { .. } => Outcome::InProgress,
            Self::Failed(_) | Self::Untried(..) => Outcome::Failed,
            Self::Terminal { .. } => Outcome::Terminal,
        }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Processed { warning } | Self::Duplicate { warning } => {
                warning.as_ref().map(|warning| &*warning.text)
            }
            Self::Ignored { reason } | Self::InProgress { reason, .. } => Some(reason),
            Self::Terminal { reason, .. } => Some(&reason.text),
            Self::Failed(returned) | Self::Untried(_, returned) => Some(&returned.reason.text),
        }
    }

    /// The code of the reason: `None` without a reason.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Processed { warning } | Self::Duplicate { warning } => {
                warning.as_ref().map(|warning| warning.code)
            }
            Self::Ignored { .. } => Some(Code::NoEvent),
            Self::InProgress { .. } => Some(Code::InProgress),
            Self::Terminal { reason, .. } => Some(reason.code),
            Self::Failed(returned) | Self::Untried(_, returned) => Some(returned.reason.code),
        }
    }

    /// Whether the message may leave the queue.
    pub(crate) fn is_acknowledged(&self) -> bool {
        match self {
            Self::Processed { .. } | Self::Duplicate { .. } | Self::Ignored { .. } => true,
            Self::Terminal { is_moved, .. } => *is_moved,
            Self::InProgress { .. } | Self::Failed(_) | Self::Untried(..) => false,
        }
    }

    /// Whether the message was tried and failed. A message that another worker has claimed was not tried.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Terminal { .. })
    }

    /// How long a message that returns to the queue should stay hidden, counted from its end.
    pub(crate) fn wait(&self) -> Option<Duration> {
        match self {
            Self::InProgress { wait, .. } => *wait,
            Self::Failed(returned) | Self::Untried(_, returned) => returned.wait,
            Self::Processed { .. }
            | Self::Duplicate { .. }
            | Self::Ignored { .. }
            | Self::Terminal { .. } => None,
        }
    }

    /// The dependency that was unavailable, if that is why the message ended so.
    pub(crate) fn lacks(&self) -> Option<&Arc<str>> {
        match self {
            Self::Failed(Returned { lacks, .. })
            | Self::Untried(_, Returned { lacks, .. })
            | Self::Terminal { lacks, .. } => lacks.as_ref(),
            Self::Processed { .. }
            | Self::Duplicate { .. }
            | Self::Ignored { .. }
            | Self::InProgress { .. } => None,
        }
    }
}

impl Returned {
    fn because(reason: Reason) -> Self {
        Self {
            reason,
            wait: None,
            lacks: None,
        }
    }
}

/// Shortens a reason for the log.
pub(crate) fn shortened(mut reason: String) -> String {
    if reason.len() > MAX_REASON {
        reason.truncate(reason.floor_char_boundary(MAX_REASON));
        reason.push('…');
    }
    reason
}

/// A message's report, with what logs and metrics tell about it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) report: Report,
    pub(crate) entered: Option<Instant>,
    pub(crate) duration: Option<Duration>,
    pub(crate) key: Option<ItemId>,
    /// The name of the message's route in a router, once it is known.
    pub(crate) route: Option<Arc<str>>,
}

impl Entry {
    pub(crate) fn new(report: Report) -> Self {
        Self {
            report,
            entered: None,
            duration: None,
            key: None,
            route: None,
        }
    }
}

/// The levels of messages' log lines that a setting has changed.
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
        let ended = report.outcome();
        let set = self.0.iter().find(|(outcome, _)| *outcome == ended);
        let level = set.map_or_else(|| default_level(ended), |(_, level)| *level);
        match report {
            Report::Processed { warning: Some(_) } | Report::Duplicate { warning: Some(_) } => {
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
    /// Messages that had no outcome when the deadline came.
    pub(crate) deadline_hits: u64,
    /// Calls of the handler, and blocking code that it started, that still ran when the batch was answered.
    pub(crate) still_running: u64,
    /// Messages that returned without a call, because cancelled handlers' blocking code held every place, or bodies all
    /// memory.
    pub(crate) no_room: u64,
    /// Whether the process takes no further event, because code can't keep the lease of its key.
    pub(crate) is_draining: bool,
    /// How long each message group of the batch has been blocked that is blocked after it.
    pub(crate) blocked: Vec<Duration>,
    /// The counts of each route.
    pub(crate) routes: Vec<RouteTally>,
}

/// What a batch counts for the messages of one route. A consumer without a router has one route.
#[derive(Debug, Default)]
pub(crate) struct RouteTally {
    /// The name of the route in a router.
    pub(crate) name: Option<Arc<str>>,
    /// Messages whose envelope, body, key or fingerprint could not be read.
    pub(crate) undecodable: u64,
    /// Messages whose key was completed for another payload.
    pub(crate) payload_mismatches: u64,
    /// Terminal messages with an attempt of unknown outcome. `None` if the route repeats such attempts.
    pub(crate) outcomes_unknown: Option<u64>,
    /// Messages whose handler succeeded after another worker had taken over their key.
    pub(crate) leases_lost: u64,
    /// Whether the route depends on anything.
    pub(crate) has_dependencies: bool,
    /// Messages that were returned without a call, because a dependency was unavailable.
    pub(crate) deferred: u64,
    /// Breakers that this batch opened, and probes of it that failed.
    pub(crate) breakers_opened: u64,
    pub(crate) handler_durations: Vec<Duration>,
}
