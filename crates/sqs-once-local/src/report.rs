//! The outcomes of all records of a batch.

use crate::log::RecordLine;
use crate::response::BatchResponse;
use serde::Serialize;

/// The reason given for a record without a record line.
const NO_LINE: &str = "no record line";

/// The outcomes of all records of a batch, in the batch's order.
#[derive(Debug, Clone)]
pub struct Report {
    /// One row for each record.
    pub rows: Vec<Row>,
}

/// The outcome of one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The record's message id.
    pub message_id: String,
    /// The outcome.
    pub outcome: String,
    /// How long the record took, in milliseconds.
    pub duration_ms: Option<f64>,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// The route of a router that took the record.
    pub route: Option<String>,
    /// The business key: namespace and the start of its hash.
    pub key: Option<String>,
}

impl Report {
    /// Combines the message ids of a batch with the function's record lines and its answer. A record without a record
    /// line has failed if the answer reports it, and is acknowledged otherwise.
    pub fn new(
        message_ids: &[String],
        mut lines: Vec<RecordLine>,
        response: &BatchResponse,
    ) -> Self {
        let rows = message_ids
            .iter()
            .map(|message_id| {
                // Two records can have the same message id. Each uses one line.
                let line = lines.iter().position(|line| line.message_id == *message_id);
                match line.map(|index| lines.remove(index)) {
                    Some(line) => Row {
                        message_id: line.message_id,
                        outcome: line.outcome,
                        duration_ms: line.duration_ms,
                        reason: line.reason,
                        route: line.route,
                        key: line.key,
                    },
                    None => Row {
                        message_id: message_id.clone(),
                        outcome: match response.failures().contains(message_id) {
                            true => "failed".to_owned(),
                            false => "acknowledged".to_owned(),
                        },
                        duration_ms: None,
                        reason: Some(NO_LINE.to_owned()),
                        route: None,
                        key: None,
                    },
                }
            })
            .collect();
        Self { rows }
    }

    /// How many records had this outcome.
    pub fn count(&self, outcome: &str) -> usize {
        self.rows
            .iter()
            .filter(|row| row.outcome == outcome)
            .count()
    }
}
