//! What became of every record of a batch.

use crate::log::{Outcome, RecordLine};
use crate::response::BatchResponse;
use serde::Serialize;

/// What is said of a record for which the function logged no record line.
const NO_LINE: &str = "no record line";

/// What became of every record of a batch, in the batch's order.
#[derive(Debug, Clone)]
pub struct Report {
    /// One row a record.
    pub rows: Vec<Row>,
}

/// What became of one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
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
}

impl Report {
    /// Puts together the message ids of a batch, what the function logged of its records, and its
    /// answer. A record without a record line has failed if the answer says so, and was processed
    /// otherwise.
    pub fn new(
        message_ids: &[String],
        mut lines: Vec<RecordLine>,
        response: &BatchResponse,
    ) -> Self {
        let rows = message_ids
            .iter()
            .map(|message_id| {
                // Two records can have one message id: each takes a line of its own.
                let line = lines.iter().position(|line| line.message_id == *message_id);
                match line.map(|index| lines.remove(index)) {
                    Some(line) => Row {
                        message_id: line.message_id,
                        outcome: line.outcome,
                        duration_ms: line.duration_ms,
                        reason: line.reason,
                        key: line.key,
                    },
                    None => Row {
                        message_id: message_id.clone(),
                        outcome: if response.failures().contains(message_id) {
                            Outcome::Failed
                        } else {
                            Outcome::Acknowledged
                        },
                        duration_ms: None,
                        reason: Some(NO_LINE.to_owned()),
                        key: None,
                    },
                }
            })
            .collect();
        Self { rows }
    }

    /// How many records had this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.rows
            .iter()
            .filter(|row| row.outcome == outcome)
            .count()
    }
}
