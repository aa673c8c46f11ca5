//! Parses the function's log lines and separates record lines from all others.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The `target` of the log line that the library writes for every record of a batch.
const RECORD_TARGET: &str = "sqs_once::record";

/// The outcome of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its effect happened now.
    Processed,
    /// Its effect had happened before.
    Duplicate,
    /// The message contained no event.
    Ignored,
    /// Another worker is processing the key.
    InProgress,
    /// It failed and will be retried.
    Failed,
    /// It failed, and retrying can't help.
    Terminal,
    /// Lambda would delete it, but no log line reports its outcome.
    Acknowledged,
}

impl Outcome {
    /// Every outcome, in the order of summaries.
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

/// In words, so `in progress` has a space.
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

/// The log line that reports the outcome of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordLine {
    /// The record's message id.
    pub message_id: String,
    /// The record's outcome.
    pub outcome: Outcome,
    /// How long the record took, in milliseconds.
    pub duration_ms: Option<f64>,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// The business key: namespace and the start of its hash.
    pub key: Option<String>,
    /// How many times SQS has delivered the message.
    pub receive_count: Option<u64>,
}

impl RecordLine {
    /// Parses a line of a function's standard output. Returns `None` if it is not a record line.
    pub fn parse(line: &str) -> Option<Self> {
        // This check skips JSON parsing for most lines: few are record lines, and logs can be long.
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
