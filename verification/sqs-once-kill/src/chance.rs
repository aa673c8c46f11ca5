//! Random numbers from a seed.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64. Concurrent callers draw from one sequence.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns an independent generator for one part of a run.
    pub(crate) fn part(&self) -> Self {
        Self::from_seed(self.next())
    }

    fn next(&self) -> u64 {
        let mut bits = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, or 0 if `end` is 0.
    pub(crate) fn below(&self, end: usize) -> usize {
        let bits = self.next() % u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(bits).unwrap_or_default()
    }

    pub(crate) fn in_thousand(&self, times: usize) -> bool {
        self.below(1000) < times
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        let span = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let more = u64::try_from(self.below(span)).unwrap_or_default();
        Duration::from_millis(range.start + more)
    }
}
