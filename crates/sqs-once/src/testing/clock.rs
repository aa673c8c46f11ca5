//! A clock that a test controls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::{Clock, Timestamp};

/// The time at which every test begins: 2026-09-21T14:13:20Z.
pub(super) const BEGINNING: Timestamp = Timestamp::from_secs(1_790_000_000);

/// A clock that starts at the same time in every test, and moves with Tokio's time and with [`advance`](Self::advance).
/// Clones share the time.
///
/// Leases, retention and deadlines are compared with it. In `#[tokio::test(start_paused = true)]`, Tokio's time
/// advances only when every task waits: a handler that sleeps for an hour returns at once, and the clock shows an hour
/// more.
#[derive(Clone, Debug)]
pub struct TestClock {
    started: Instant,
    /// The sum of all advances, in milliseconds.
    added: Arc<AtomicU64>,
}

impl TestClock {
    /// Creates a clock for tests without a [`Bench`](super::Bench), such as those of an
    /// [`Idempotency`](crate::Idempotency).
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            added: Arc::default(),
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let added = Duration::from_millis(self.added.load(Ordering::SeqCst));
        BEGINNING + self.started.elapsed() + added
    }

    /// Moves the time of leases and retention forward. Tokio's time does not move, so no sleep ends. If the clock passes the
    /// deadline of an invocation, its process counts as one that was frozen: no handler starts, and none that runs is polled
    /// again.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let add = |added: u64| Some(added.saturating_add(millis));
        // Never fails: `add` always returns a value.
        let _ = self
            .added
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.now()
    }
}
