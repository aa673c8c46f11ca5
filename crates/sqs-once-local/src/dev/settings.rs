//! How a poller batches messages, and the limits of an invocation.

use std::num::NonZeroU32;
use std::time::Duration;

/// How a [`Poller`](super::Poller) invokes its function: the settings of an event source mapping, and the function's
/// timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollerSettings {
    /// The most messages in a batch. 10 by default, as on Lambda.
    pub batch_size: NonZeroU32,
    /// How long an incomplete batch waits for more messages. Zero by default.
    pub window: Duration,
    /// The most execution environments, and so concurrent invocations. 2 by default, the least that Lambda allows.
    pub concurrency: NonZeroU32,
    /// How long an invocation may take. The poller kills a process that takes longer.
    pub timeout: Duration,
    /// Whether the mapping has `ReportBatchItemFailures`. Without it, any answer deletes the whole batch.
    pub reports_failures: bool,
    /// Whether to end when the queue is empty and no invocation is in flight.
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
