//! A queue's settings and message counts.

use std::time::Duration;

/// The settings of a queue. A queue whose name ends in `.fifo` is a FIFO queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// The visibility timeout: how long a received message can't be received again. 30 s by default, as in SQS.
    pub visibility_timeout: Duration,
    /// How long a message can't be received after it was sent, unless the message sets its own delay. 0 s by default.
    pub delay: Duration,
    /// How long the queue keeps a message that is not deleted. 4 days by default.
    pub retention: Duration,
    /// How long a receive request waits for the first message, unless the request sets its own time. 0 s by default.
    pub wait: Duration,
    /// Whether a FIFO queue uses the SHA-256 of the body as the deduplication id of a message that has none.
    pub content_based_deduplication: bool,
    /// When messages move to a dead-letter queue. Never by default.
    pub redrive: Option<Redrive>,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            visibility_timeout: Duration::from_secs(30),
            delay: Duration::ZERO,
            retention: Duration::from_secs(4 * 24 * 60 * 60),
            wait: Duration::ZERO,
            content_based_deduplication: false,
            redrive: None,
        }
    }
}

/// A redrive policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The dead-letter queue.
    pub to: String,
    /// A message that has been received this many times moves to the dead-letter queue instead of being received again.
    pub max_receive_count: u32,
}

/// How many messages a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Messages that can be received.
    pub visible: usize,
    /// Messages that were received and are invisible.
    pub in_flight: usize,
    /// Messages that were sent with a delay that has not ended.
    pub delayed: usize,
}
