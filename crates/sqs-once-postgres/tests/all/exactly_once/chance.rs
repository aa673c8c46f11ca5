//! Random choices from a seed, which are equal in every run.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqs_once::unstable::Random;

/// Clones share one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Arc<Mutex<fastrand::Rng>>);

impl Chance {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.0.lock().unwrap().u64(..end)
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

impl Random for Chance {
    fn bits(&self) -> u128 {
        self.0.lock().unwrap().u128(..)
    }
}
