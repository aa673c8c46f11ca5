//! Chance from a seed: the same in every run.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqs_once::random::Random;

/// SplitMix64. Clones draw from one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Arc<Mutex<u64>>);

impl Chance {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed)))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub(crate) fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn index(&self, len: usize) -> usize {
        usize::try_from(self.below(len.try_into().unwrap())).unwrap()
    }

    /// Once in `n` times.
    pub(crate) fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

impl Random for Chance {
    fn bits(&self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}
