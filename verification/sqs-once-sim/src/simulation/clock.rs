//! The clocks of processes, which may be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use sqs_once::store::Timestamp;
use sqs_once::unstable::Clock;
use tokio::time::Instant;

/// The true time at which every schedule begins.
const BEGINNING: Duration = Duration::from_secs(4_102_444_800);

/// The true time now.
pub(crate) fn true_time(started: Instant) -> Timestamp {
    true_time_at(started, Instant::now())
}

pub(crate) fn true_time_at(started: Instant, at: Instant) -> Timestamp {
    Timestamp::default() + BEGINNING + at.duration_since(started)
}

/// The clock of a process. All clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ProcessClock {
    started: Instant,
    /// Milliseconds ahead of the true time.
    ahead: Arc<AtomicI64>,
    /// The milliseconds by which the next reading is too early.
    lag: Arc<AtomicU64>,
}

impl ProcessClock {
    pub(crate) fn new(started: Instant, ahead: i64) -> Self {
        Self {
            started,
            ahead: Arc::new(AtomicI64::new(ahead)),
            lag: Arc::default(),
        }
    }

    pub(crate) fn set(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// The next reading is too early by this. An engine that reads it to convert a deadline into its other clock's time
    /// gets one that is later by this, as if that clock stopped for so long.
    pub(crate) fn lag_once(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or_default();
        self.lag.store(by, Ordering::Relaxed);
    }

    pub(crate) fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed)
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        let lag = self.lag.swap(0, Ordering::Relaxed);
        let truly = true_time(self.started).as_millis() - lag;
        Timestamp::from_millis(truly.saturating_add_signed(self.ahead()))
    }
}
