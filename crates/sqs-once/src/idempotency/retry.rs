//! Retries of requests to the store, above the SDK's own.

use std::time::Duration;

use tokio::time::Instant;

use crate::store::StoreError;

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The pause before a retry. It doubles each time, up to one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Retry {
    pause: Duration,
}

impl Retry {
    /// Returns the retry after `last`, or the first one.
    pub(crate) fn after(last: Option<Self>) -> Self {
        Self {
            pause: last.map_or(FIRST_PAUSE, |last| (last.pause * 2).min(LONGEST_PAUSE)),
        }
    }

    /// Returns the retry after an error, or `None` if the error is not transient or the pause would not end before `until`.
    pub(crate) fn after_error(
        last: Option<Self>,
        error: &StoreError,
        until: Instant,
    ) -> Option<Self> {
        let next = Self::after(last);
        (error.is_transient() && Instant::now() + next.pause < until).then_some(next)
    }

    /// Returns when to send the request: after a random time between half of the pause and all of it, so that workers that
    /// were throttled together do not retry together.
    pub(crate) fn at(self, bits: u128) -> Instant {
        let half = self.pause / 2;
        let nanos = u128::max(half.as_nanos(), 1);
        let extra = u64::try_from(bits % nanos).unwrap_or(0);
        Instant::now() + half + Duration::from_nanos(extra)
    }
}
