//! The source of all randomness.

/// A source of random bits, for owners and the jitter of retries.
///
/// Tests and simulators use a seeded source; everything else uses the operating system's generator.
pub trait Random: Send + Sync + 'static {
    /// Returns 128 bits that no other call, in this process or any other, is likely to return.
    fn bits(&self) -> u128;
}

/// The operating system's generator. Safe across process snapshots, because it has no state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OsRandom;

impl Random for OsRandom {
    /// # Panics
    /// If the operating system provides no randomness. Continuing would not be safe: with repeated owners, two workers
    /// could own the same key.
    fn bits(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system must provide random bytes");
        u128::from_ne_bytes(bytes)
    }
}
