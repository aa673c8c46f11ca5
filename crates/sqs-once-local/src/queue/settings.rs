//! How a queue behaves, and how many messages it has.

use std::time::Duration;

/// How a queue behaves. One whose name ends in `.fifo` is a FIFO queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueSettings {
    /// How long a message that was received can't be received again: 30 s by default, as in SQS.
    pub visibility_timeout: Duration,
    /// How long a message can't be received after it was sent, unless it says so itself: 0 s by default.
    pub delay: Duration,
    /// How long a message stays that nobody deletes: 4 days by default.
    pub retention: Duration,
    /// How long a request for messages waits for the first, unless it says so itself: 0 s by default.
    pub wait: Duration,
    /// Whether a FIFO queue takes the SHA-256 of a body for a deduplication id that is not given.
    pub content_based_deduplication: bool,
    /// When messages go to a dead-letter queue: by default never.
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
    /// A message that was received so often goes there instead of being received once more.
    pub max_receive_count: u32,
}

/// How many messages a queue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Those that can be received.
    pub visible: usize,
    /// Those that were received, and are invisible.
    pub in_flight: usize,
    /// Those that were sent with a delay that has not ended.
    pub delayed: usize,
}
