//! The function's log lines: those that say what became of a record, told apart from all others.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The `target` of the one log line that every record of a batch ends in.
const RECORD_TARGET: &str = "sqs_once::record";

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its effect happened now.
    Processed,
    /// Its effect had happened before.
    Duplicate,
    /// There was no event in it.
    Ignored,
    /// Somebody else is working on it.
    InProgress,
    /// It failed and will be retried.
    Failed,
    /// It failed and retrying can't help.
    Terminal,
    /// Lambda would delete it, and no log line says why.
    Acknowledged,
}

impl Outcome {
    /// Every outcome, in the order in which summaries list them.
    pub const ALL: [Outcome; 7] = [
        Outcome::Processed,
        Outcome::Duplicate,
        Outcome::Ignored,
        Outcome::InProgress,
        Outcome::Failed,
        Outcome::Terminal,
        Outcome::Acknowledged,
    ];
}

/// In words: `in progress` has a space.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Outcome::Processed => "processed",
            Outcome::Duplicate => "duplicate",
            Outcome::Ignored => "ignored",
            Outcome::InProgress => "in progress",
            Outcome::Failed => "failed",
            Outcome::Terminal => "terminal",
            Outcome::Acknowledged => "acknowledged",
        })
    }
}

/// The log line that says what became of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordLine {
    /// The record's message id.
    pub message_id: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How long that took, in milliseconds.
    pub duration_ms: Option<f64>,
    /// Why, where there is something to say.
    pub reason: Option<String>,
    /// The business key: namespace and the start of its hash.
    pub key: Option<String>,
    /// How often SQS has delivered the message.
    pub receive_count: Option<u64>,
}

impl RecordLine {
    /// Reads a line of a function's standard output; `None` if it is any other line.
    pub fn parse(line: &str) -> Option<Self> {
        // Most lines are not record lines, and logs can be long.
        if !line.contains(RECORD_TARGET) {
            return None;
        }
        let json: serde_json::Value = serde_json::from_str(line).ok()?;
        if json["target"] != RECORD_TARGET {
            return None;
        }
        Self::deserialize(json).ok()
    }
}
