//! Chance from a seed: the same in every run.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqs_once::random::Random;

/// SplitMix64. Clones draw from one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Arc<AtomicU64>);

impl Chance {
    /// Neighbouring seeds have nothing in common.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(mixed(seed))))
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed))
    }

    /// Below `end`, which is not zero.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// A place in something of this length, which is not zero.
    pub(crate) fn index(&self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }

    /// Once in `n` times.
    pub(crate) fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

const fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Random for Chance {
    fn bits(&self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }
}
