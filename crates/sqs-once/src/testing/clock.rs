//! Time that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::time::{Clock, Timestamp};

/// When every test begins: 2026-09-21T14:13:20Z.
pub(super) const BEGINNING: Timestamp = Timestamp::from_secs(1_790_000_000);

/// A clock that stands at the same moment at the beginning of every test, and moves with Tokio's time
/// and with [`advance`](Self::advance). Clones are one clock.
///
/// Leases, retention and deadlines are compared with it. In `#[tokio::test(start_paused = true)]` time
/// stands still while there is something to do: a handler that sleeps for an hour takes no time, and
/// the clock shows an hour more.
#[derive(Clone, Debug)]
pub struct TestClock {
    started: Instant,
    /// What was added by hand, in milliseconds.
    added: Arc<AtomicU64>,
}

impl TestClock {
    /// A clock that starts now, for what runs without a [`Bench`](super::Bench): [`Idempotency`](crate::Idempotency), say.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            added: Arc::default(),
        }
    }

    /// Lets time pass for leases and retention, at once. Tokio's time stays where it is: no handler
    /// under way is cancelled by this, and nothing that sleeps wakes up.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        let add = |added: u64| Some(added.saturating_add(millis));
        // Never fails: `add` always gives a value.
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
        let added = Duration::from_millis(self.added.load(Ordering::SeqCst));
        BEGINNING + self.started.elapsed() + added
    }
}
