//! Errors of a queue.

/// A request that SQS refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// The queue does not exist.
    #[error("there is no queue `{0}`")]
    NoQueue(String),
    /// The receipt handle does not belong to this queue.
    #[error("the receipt handle is not one of the queue `{0}`")]
    Handle(String),
    /// The message is not in flight: its visibility timeout has ended, or it was received again since.
    #[error("the message is not in flight: it was received again, or became visible")]
    NotInFlight,
    /// A FIFO queue deletes a message only while it is in flight.
    #[error("the receipt handle has expired")]
    Expired,
    /// The visibility timeout is too long.
    #[error("a message is invisible for 12 hours at most, counted from when it was received")]
    TooLong,
    /// A message to a FIFO queue lacks a required field.
    #[error("a message to a FIFO queue needs {0}")]
    Fifo(&'static str),
    /// The queue can't detect duplicates of a message without a deduplication id.
    #[error(
        "a message to a FIFO queue needs a deduplication id, unless the queue makes them of the bodies"
    )]
    NoDeduplication,
    /// A queue and its dead-letter queue are not of the same type.
    #[error("`{queue}` and its dead-letter queue `{dead_letters}` are not of the same type")]
    OtherType {
        /// The queue.
        queue: String,
        /// Its dead-letter queue.
        dead_letters: String,
    },
}

impl QueueError {
    /// The error code of the SQS API.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoQueue(_) => "QueueDoesNotExist",
            Self::Handle(_) => "ReceiptHandleIsInvalid",
            Self::NotInFlight => "MessageNotInflight",
            Self::Fifo(_) => "MissingParameter",
            Self::Expired | Self::TooLong | Self::NoDeduplication | Self::OtherType { .. } => {
                "InvalidParameterValue"
            }
        }
    }
}
