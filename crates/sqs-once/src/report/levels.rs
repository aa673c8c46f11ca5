//! The levels of records' log lines.

use tracing::Level;

use super::{Outcome, Report};

/// The level of a record's log line, by its outcome.
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

    /// Parses text such as `processed=debug,duplicate=debug`.
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

    pub(crate) fn level_of(&self, report: &Report) -> Level {
        let level = self.0.iter().find(|(known, _)| *known == report.outcome);
        let level = level.map_or(Level::INFO, |(_, level)| *level);
        // A success with a reason is a warning.
        match report.outcome {
            Outcome::Processed | Outcome::Duplicate if report.reason.is_some() => {
                level.min(Level::WARN)
            }
            _ => level,
        }
    }
}
