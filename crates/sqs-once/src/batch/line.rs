//! The log's one line a record.

use tracing::{Level, debug, error, info, trace, warn};

use crate::key::ItemId;
use crate::record::{CorrelationId, Message};

use super::ledger::{Outcome, Report};

/// At which level the line of a record stands, by its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLevels([(Outcome, Level); 6]);

impl Default for RecordLevels {
    fn default() -> Self {
        Self([
            (Outcome::Processed, Level::INFO),
            (Outcome::Duplicate, Level::INFO),
            (Outcome::Ignored, Level::INFO),
            (Outcome::InProgress, Level::INFO),
            (Outcome::Failed, Level::WARN),
            (Outcome::Terminal, Level::ERROR),
        ])
    }
}

impl RecordLevels {
    pub(crate) fn set(&mut self, outcome: Outcome, level: Level) {
        for (known, its_level) in &mut self.0 {
            if *known == outcome {
                *its_level = level;
            }
        }
    }

    /// Reads such as `processed=debug,duplicate=debug`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut levels = Self::default();
        for pair in text.split(',') {
            let (name, level) = pair.split_once('=')?;
            let (outcome, _) = levels
                .0
                .into_iter()
                .find(|(outcome, _)| outcome.as_str() == name.trim())?;
            levels.set(outcome, level.trim().parse().ok()?);
        }
        Some(levels)
    }

    fn of(&self, report: &Report) -> Level {
        let level = self.0.iter().find(|(known, _)| *known == report.outcome);
        let level = level.map_or(Level::INFO, |(_, level)| *level);
        // What succeeded and says why has something to warn of.
        match report.outcome {
            Outcome::Processed | Outcome::Duplicate if report.reason.is_some() => {
                level.min(Level::WARN)
            }
            _ => level,
        }
    }
}

/// The line of one record at its end.
pub(super) fn log(record: &Message, report: &Report, levels: &RecordLevels) {
    let message = match report.outcome {
        Outcome::Processed => "record processed",
        Outcome::Duplicate => "record duplicate",
        Outcome::Ignored => "record ignored",
        Outcome::InProgress => "record in progress",
        Outcome::Failed => "record failed",
        Outcome::Terminal => "record terminal",
    };
    macro_rules! line {
        ($level:ident) => {
            $level!(
                target: "sqs_once::record",
                outcome = report.outcome.as_str(),
                message_id = record.id(),
                duration_ms = report.duration.map(|duration| duration.as_secs_f64() * 1000.0),
                reason = report.reason,
                key = report.key.as_ref().map(ItemId::short),
                correlation_id = record.correlation_id().map(CorrelationId::as_str),
                receive_count = record.receive_count(),
                message,
            )
        };
    }
    match levels.of(report) {
        Level::ERROR => line!(error),
        Level::WARN => line!(warn),
        Level::INFO => line!(info),
        Level::DEBUG => line!(debug),
        Level::TRACE => line!(trace),
    }
}
