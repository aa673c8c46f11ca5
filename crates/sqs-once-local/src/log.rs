//! Parses the function's log lines and separates record lines from all others.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The `target` of the log line that the library writes for every message of a batch.
const RECORD_TARGET: &str = "sqs_once::record";

/// The callback for every line of output that is not a record line.
pub(crate) type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// The callback for every record line.
pub(crate) type OnRecord = Arc<dyn Fn(RecordLine) + Send + Sync>;

/// The outcomes that the library logs, in the order in which summaries list them, and the one of a message without a
/// line: Lambda would delete its message, and no log line gives the reason.
pub const OUTCOMES: [&str; 7] = [
    "processed",
    "duplicate",
    "ignored",
    "in_progress",
    "failed",
    "terminal",
    "acknowledged",
];

/// The log line that reports the outcome of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordLine {
    /// The message's id.
    pub message_id: String,
    /// The message's outcome.
    pub outcome: String,
    /// How long the message took, in milliseconds.
    pub duration_ms: Option<f64>,
    /// The code of the reason. Troubleshooting has a paragraph for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// The route of a router that took the message.
    pub route: Option<String>,
    /// The business key: namespace and the start of its hash.
    pub key: Option<String>,
    /// How many times SQS has delivered the message.
    #[serde(skip_serializing_if = "Option::is_none")]
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
