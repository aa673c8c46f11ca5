//! The report of one record.

use std::time::Duration;

use tokio::time::Instant;

use crate::key::ItemId;

use super::Outcome;

/// The most bytes of a reason that are kept, because an error's text can have any length.
const MAX_REASON: usize = 1024;

/// How a record ended, and why.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    pub(crate) reason: Option<String>,
    /// Whether the message may leave the queue.
    pub(crate) acknowledged: bool,
    /// The record was not started.
    pub(crate) untried: bool,
    /// How long a message that returns to the queue should stay hidden, counted from the record's end.
    pub(crate) wait: Option<Duration>,
    /// When the ledger took the report.
    pub(crate) entered: Option<Instant>,
    /// How long the record took, if it was started.
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

    /// The report of a record that was not started.
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
