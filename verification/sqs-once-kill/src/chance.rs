//! Random numbers from a seed.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;

/// Concurrent callers draw from one sequence.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<Rng>);

impl Chance {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Mutex::new(Rng::with_seed(seed)))
    }

    /// Returns an independent generator for one part of a run.
    pub(crate) fn part(&self) -> Self {
        Self::from_seed(self.0.lock().u64(..))
    }

    /// A number below `end`, or 0 if `end` is 0.
    pub(crate) fn below(&self, end: usize) -> usize {
        self.0.lock().usize(..end.max(1))
    }

    pub(crate) fn in_thousand(&self, times: usize) -> bool {
        self.below(1000) < times
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.0.lock().u64(range))
    }
}
