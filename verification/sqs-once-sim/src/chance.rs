//! Deterministic random numbers from a seed.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqs_once::unstable::Random;

/// SplitMix64. All clones draw from one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Chance(Arc<AtomicU64>);

impl Chance {
    /// Adjacent seeds give unrelated sequences.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(mixed(seed))))
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        mixed(self.0.fetch_add(STEP, Ordering::Relaxed))
    }

    /// A number below `end`, which must not be zero.
    pub(crate) fn below(&self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index into a collection of this length, which must not be zero.
    pub(crate) fn index(&self, len: usize) -> usize {
        (self.next() % len as u64) as usize
    }

    /// True with probability 1/`n`.
    pub(crate) fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

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
