//! The one seam through which randomness comes in.

/// A source of random bits: owners are made of them, and the jitter of retries.
///
/// Tests and simulators bring a seeded one; everything else uses [`OsRandom`].
pub trait Random: Send + Sync + 'static {
    /// 128 bits that no other call, in this process or any other, is likely to return.
    fn bits(&self) -> u128;
}

/// The operating system's generator. Safe across process snapshots, since it keeps no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsRandom;

impl Random for OsRandom {
    /// # Panics
    /// If the operating system has no randomness to give: owners that repeat would let two workers
    /// own one key, so there is nothing safe to go on with.
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system must provide random bytes");
        u128::from_ne_bytes(bytes)
    }
}
