//! Settings that only tests and simulators need.

use std::sync::Arc;

use crate::consumer::Consumer;
use crate::once::builder::Idempotency;
use crate::random::Random;
use crate::time::Clock;

/// Sets the clock and the source of randomness of a [`Consumer`] or an [`Idempotency`]. A [`Bench`](super::Bench) sets
/// both itself.
///
/// ```
/// use sqs_once::testing::{TestClock, TestSettings};
/// use sqs_once::store::MemoryStore;
/// use sqs_once::Idempotency;
///
/// let clock = TestClock::new();
/// let idempotency = Idempotency::new("receipts")
///     .store(MemoryStore::new())
///     .clock(clock.clone());
/// ```
pub trait TestSettings: Sized {
    /// Sets the clock that leases and expiry are compared with. Default: the machine's clock.
    #[must_use]
    fn clock(self, clock: impl Clock) -> Self;

    /// Sets the source of owners and jitter. Default: the operating system's generator.
    #[must_use]
    fn random(self, random: impl Random) -> Self;
}

impl TestSettings for Consumer {
    fn clock(self, clock: impl Clock) -> Self {
        self.set_shared(|settings| settings.clock = Some(Arc::new(clock)))
    }

    fn random(self, random: impl Random) -> Self {
        self.set_shared(|settings| settings.random = Some(Arc::new(random)))
    }
}

impl TestSettings for Idempotency {
    fn clock(self, clock: impl Clock) -> Self {
        self.set_shared(|settings| settings.clock = Some(Arc::new(clock)))
    }

    fn random(self, random: impl Random) -> Self {
        self.set_shared(|settings| settings.random = Some(Arc::new(random)))
    }
}
