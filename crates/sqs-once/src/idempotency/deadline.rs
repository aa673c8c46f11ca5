//! The moments that end a batch.

use std::time::Duration;

use tokio::time::Instant;

use crate::time::Timestamp;

/// The margin when none is configured, and the share of the time left that it never exceeds.
const DEFAULT_MARGIN: Duration = Duration::from_secs(1);
const DEFAULT_SHARE: u32 = 10;
const DEFAULT_LEASE_MARGIN: Duration = Duration::from_secs(3);
/// No invocation takes a day.
const LONGEST_INVOCATION: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a lease reaches beyond the invocation's deadline, and how long before the deadline the work ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margins {
    pub(super) lease: Option<Duration>,
    pub(super) deadline: Option<Duration>,
}

/// When a batch stops starting records, when it must answer, and how long its claims hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// From here on nothing starts, and handlers still running are cancelled.
    pub(crate) cancel_at: Instant,
    /// Hooks end here, which leaves time for what they decide.
    pub(crate) hooks_by: Instant,
    /// The answer goes out here at the latest, whatever is still in flight.
    pub(crate) answer_by: Instant,
    /// The lease of every claim of this batch: no handler of it runs longer.
    pub(crate) lease_until: Timestamp,
}

/// How long an invocation that ends at `ends_at` still has.
pub(crate) fn time_left(ends_at: Timestamp, now: Timestamp) -> Duration {
    let since_epoch = ends_at.since(Timestamp::default());
    if since_epoch < LONGEST_INVOCATION {
        // `cargo lambda watch` sends the time that is left where Lambda sends the moment.
        since_epoch
    } else {
        ends_at.since(now).min(LONGEST_INVOCATION)
    }
}

impl Deadline {
    /// The moments for an invocation that ends at `ends_at`. The last quarter of the margin is for the
    /// answer's way to Lambda, the rest for recording what is done.
    pub(super) fn new(ends_at: Timestamp, now: Timestamp, margins: Margins) -> Self {
        let left = time_left(ends_at, now);
        let margin = margins
            .deadline
            .unwrap_or_else(|| DEFAULT_MARGIN.min(left / DEFAULT_SHARE));
        // A margin longer than the invocation would leave no time for any record, ever.
        let margin = margin.min(left / 2);
        let start = Instant::now();
        Self {
            cancel_at: start + left.saturating_sub(margin),
            hooks_by: start + left.saturating_sub(margin / 2),
            answer_by: start + left.saturating_sub(margin / 4),
            lease_until: now + left + margins.lease.unwrap_or(DEFAULT_LEASE_MARGIN),
        }
    }
}
