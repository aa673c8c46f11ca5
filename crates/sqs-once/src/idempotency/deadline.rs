//! The points in time at which the phases of an invocation end.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::store::{Answers, StoreError, StoreErrorKind};
use crate::time::{Clock, Timestamp};

/// The default margin, and the largest share of the remaining time that a margin may take.
const DEFAULT_MARGIN: Duration = Duration::from_secs(1);
const DEFAULT_SHARE: u32 = 10;
const DEFAULT_LEASE_MARGIN: Duration = Duration::from_secs(3);
/// An upper limit: no invocation takes a day.
const LONGEST_INVOCATION: Duration = Duration::from_secs(24 * 60 * 60);

/// How much time lies between the invocation's deadline and what must end around it.
///
/// ```
/// use std::time::Duration;
///
/// use sqs_once::consumer::Margins;
///
/// // Records of large batches take longer to complete.
/// let margins = Margins::new().deadline(Duration::from_secs(3));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Margins {
    pub(super) lease: Option<Duration>,
    pub(super) deadline: Option<Duration>,
}

impl Margins {
    /// Creates margins that leave everything to the environment and the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lease: None,
            deadline: None,
        }
    }

    /// Sets how long the lease of a claim lasts beyond the invocation's deadline. Default: `SQS_ONCE_LEASE_MARGIN`, else
    /// 3 s.
    ///
    /// The margin covers clocks that differ, and a process that Lambda ends a little late. Less than one second fails at
    /// [`init`](crate::Consumer::init).
    #[must_use]
    pub const fn lease(mut self, margin: Duration) -> Self {
        self.lease = Some(margin);
        self
    }

    /// Sets how long before the invocation's deadline the work is cancelled. This leaves time to complete the keys of
    /// finished work and to answer. Default: `SQS_ONCE_DEADLINE_MARGIN`, else 1 s or a tenth of the invocation's time,
    /// whichever is less. The margin is never more than half of the invocation's time.
    ///
    /// Zero fails at [`init`](crate::Consumer::init), because Lambda would end the function before it has answered.
    #[must_use]
    pub const fn deadline(mut self, margin: Duration) -> Self {
        self.deadline = Some(margin);
        self
    }

    /// Returns these margins, and those of the environment where they are not set.
    pub(super) fn or(self, lease: Option<Duration>, deadline: Option<Duration>) -> Self {
        Self {
            lease: self.lease.or(lease),
            deadline: self.deadline.or(deadline),
        }
    }
}

/// When a batch stops starting records, when it must answer, and how long its claims hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// When running handlers are cancelled. No handler starts later.
    pub(crate) cancel_at: Instant,
    /// When the invocation ends by the wall clock. The other clock may stop while the process is frozen.
    ends_at: Timestamp,
    /// When hooks are cancelled, early enough to act on their results.
    pub(crate) hooks_by: Instant,
    /// When requests without an answer end, early enough to report that and to hide what returns. None is sent later.
    pub(crate) requests_by: Instant,
    /// When the answer goes out at the latest.
    pub(crate) answer_by: Instant,
    /// When the leases of all claims in this batch end. No handler runs longer.
    pub(crate) lease_until: Timestamp,
}

/// Returns the remaining time of an invocation that ends at `ends_at`.
pub(crate) fn time_left(ends_at: Timestamp, now: Timestamp) -> Duration {
    let since_epoch = ends_at.since(Timestamp::default());
    if since_epoch < LONGEST_INVOCATION {
        // `cargo lambda watch` sends the remaining time instead of the point in time.
        since_epoch
    } else {
        ends_at.since(now).min(LONGEST_INVOCATION)
    }
}

impl Deadline {
    /// Calculates the deadline of an invocation that ends at `ends_at`. The last quarter of the margin is for sending the
    /// answer to Lambda, the rest for completing keys.
    pub(super) fn new(ends_at: Timestamp, now: Timestamp, margins: Margins) -> Self {
        let left = time_left(ends_at, now);
        let margin = margins
            .deadline
            .unwrap_or_else(|| DEFAULT_MARGIN.min(left / DEFAULT_SHARE));
        // A margin longer than the invocation would leave no time for any record.
        let margin = margin.min(left / 2);
        let start = Instant::now();
        Self {
            cancel_at: start + left.saturating_sub(margin),
            ends_at: now + left,
            hooks_by: start + left.saturating_sub(margin / 2),
            requests_by: start + left.saturating_sub(margin * 3 / 8),
            answer_by: start + left.saturating_sub(margin / 4),
            lease_until: now + left + margins.lease.unwrap_or(DEFAULT_LEASE_MARGIN),
        }
    }
}

impl Deadline {
    /// When the invocation ends by the wall clock.
    pub(super) fn ends_at(&self) -> Timestamp {
        self.ends_at
    }

    /// Returns the time at which this many thirds of the lease's last part are left, which is `longest` at most.
    pub(super) fn left(&self, thirds: u32, longest: Duration) -> Timestamp {
        let margin = self.lease_until.since(self.ends_at);
        self.ends_at + (margin - margin.min(longest) * thirds / 3)
    }
}

/// The end of the time for code that runs on a claim.
#[derive(Clone, Copy)]
pub(crate) struct Until<'a> {
    pub(crate) at: Instant,
    ends_at: Timestamp,
    clock: &'a dyn Clock,
}

impl<'a> Until<'a> {
    /// Ends at `at`, or with the invocation of this deadline if a process that was frozen thaws later.
    pub(crate) fn new(at: Instant, deadline: &Deadline, clock: &'a dyn Clock) -> Self {
        Self {
            at,
            ends_at: deadline.ends_at,
            clock,
        }
    }

    pub(crate) fn has_come(&self) -> bool {
        Instant::now() >= self.at || self.clock.now() >= self.ends_at
    }
}

/// Waits for the store's answer until this time.
pub(crate) async fn answer_until<T>(
    until: Instant,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    in_time(until, request).await?
}

/// Waits for the store's answers to a request with `count` entries until this time.
pub(crate) async fn answers_until<T>(
    until: Instant,
    count: usize,
    request: impl Future<Output = Answers<T>>,
) -> Answers<T> {
    let answers = in_time(until, request).await;
    answers.unwrap_or_else(|error| (0..count).map(|_| Err(error.clone())).collect())
}

async fn in_time<T>(until: Instant, request: impl Future<Output = T>) -> Result<T, StoreError> {
    // The first poll would send the request.
    if Instant::now() < until
        && let Ok(answer) = timeout_at(until, request).await
    {
        return Ok(answer);
    }
    Err(too_late())
}

pub(super) fn too_late() -> StoreError {
    let message = "no answer came in time for the deadline";
    StoreError::new(StoreErrorKind::Unanswered, message)
}
