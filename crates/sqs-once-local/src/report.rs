//! The outcomes of all messages of a batch.

use crate::log::RecordLine;
use crate::response::BatchResponse;

/// The reason given for a message without a record line.
const NO_LINE: &str = "no log line";

/// The outcomes of all messages of a batch, in the batch's order.
#[derive(Debug, Clone)]
pub struct Report {
    /// One row for each message.
    pub rows: Vec<RecordLine>,
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
                line.map(|index| lines.remove(index))
                    .unwrap_or_else(|| RecordLine {
                        message_id: message_id.clone(),
                        outcome: match response.failures().contains(message_id) {
                            true => "failed".to_owned(),
                            false => "acknowledged".to_owned(),
                        },
                        reason: Some(NO_LINE.to_owned()),
                        ..RecordLine::default()
                    })
            })
            .collect();
        Self { rows }
    }

    /// How many messages had this outcome.
    pub fn count(&self, outcome: &str) -> usize {
        self.rows
            .iter()
            .filter(|row| row.outcome == outcome)
            .count()
    }
}
