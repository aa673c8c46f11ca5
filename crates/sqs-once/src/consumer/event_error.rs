//! Why an invocation can't be answered.

use lambda_runtime::Diagnostic;
use thiserror::Error;

use crate::error::ConfigError;

/// The invocation can't be answered record by record. It fails as a whole, and no message is acknowledged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EventError {
    /// A record could not be reported as failed.
    #[error(
        "record {index} of the event has no messageId: an unnamed record can't be reported, so nothing of this batch is acknowledged"
    )]
    NoMessageId {
        /// The record's index, counted from 0.
        index: usize,
    },
    /// The event is a bare array of records, which only an EventBridge pipe sends.
    #[error(
        "the event is a bare array of records, and not the event of an event source mapping, which has them in `Records`: give \
         the queue an event source mapping, or call `.pipe_target()` on the consumer if an EventBridge pipe has this function as \
         its target"
    )]
    NoRecords,
    /// The invocation has no deadline, so no lease would be long enough.
    #[error(
        "the invocation has no deadline (Lambda-Runtime-Deadline-Ms): a claim's lease can't be known, so nothing is started"
    )]
    NoDeadline,
    /// The consumer's configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The error that Lambda shows for a failed invocation.
impl From<EventError> for Diagnostic {
    fn from(error: EventError) -> Self {
        let error_type = match error {
            EventError::NoMessageId { .. } => "NoMessageId",
            EventError::NoRecords => "NoRecords",
            EventError::NoDeadline => "NoDeadline",
            EventError::Config(_) => "ConfigError",
        };
        Self {
            error_type: error_type.to_owned(),
            error_message: error.to_string(),
        }
    }
}
