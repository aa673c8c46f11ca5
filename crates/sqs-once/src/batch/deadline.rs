//! The moments that end a batch.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::Timestamp;

/// The margin when none is configured, and the share of the time left that it never exceeds.
const DEFAULT_MARGIN: Duration = Duration::from_secs(1);
const DEFAULT_SHARE: u32 = 10;

/// When a batch stops starting records, when it must answer, and how long its claims hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// From here on nothing starts, and handlers still running are cancelled.
    pub(crate) cancel_at: Instant,
    /// Hooks end here, which leaves time for what they decide.
    pub(crate) hooks_by: Instant,
    /// The answer goes out here at the latest, whatever is still under way.
    pub(crate) answer_by: Instant,
    /// The lease of every claim of this batch: no handler of it runs longer.
    pub(crate) lease_until: Timestamp,
}

impl Deadline {
    /// The moments for an invocation that has `left` from `now`. The last quarter of the margin is
    /// for the answer's way to Lambda, the rest for recording what is done.
    pub(crate) fn new(
        now: Timestamp,
        left: Duration,
        margin: Option<Duration>,
        lease_margin: Duration,
    ) -> Self {
        let margin = margin.unwrap_or_else(|| DEFAULT_MARGIN.min(left / DEFAULT_SHARE));
        // A margin longer than the invocation would leave no time for any record, ever.
        let margin = margin.min(left / 2);
        let start = Instant::now();
        Self {
            cancel_at: start + left.saturating_sub(margin),
            hooks_by: start + left.saturating_sub(margin / 2),
            answer_by: start + left.saturating_sub(margin / 4),
            lease_until: now + left + lease_margin,
        }
    }
}
