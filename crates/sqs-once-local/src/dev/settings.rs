//! How a poller batches, and what the function may take.

use std::num::NonZeroU32;
use std::time::Duration;

/// How a [`Poller`](super::Poller) invokes its function: the settings of an event source mapping and the function's
/// timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollerSettings {
    /// The most messages of a batch: 10 by default, as on Lambda.
    pub batch_size: NonZeroU32,
    /// How long a batch that is not full waits for more messages: by default not at all.
    pub window: Duration,
    /// The most execution environments, and so invocations at a time: 2 by default, the least that Lambda has.
    pub concurrency: NonZeroU32,
    /// How long an invocation may take. The process of one that takes longer is killed.
    pub timeout: Duration,
    /// Whether the mapping has `ReportBatchItemFailures`. Without, any answer deletes the whole batch.
    pub reports_failures: bool,
    /// Whether to end when the queue is empty and nothing is under way.
    pub until_empty: bool,
}

impl Default for PollerSettings {
    fn default() -> Self {
        Self {
            batch_size: NonZeroU32::MIN.saturating_add(9),
            window: Duration::ZERO,
            concurrency: NonZeroU32::MIN.saturating_add(1),
            timeout: Duration::from_secs(30),
            reports_failures: true,
            until_empty: false,
        }
    }
}
