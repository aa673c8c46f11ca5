//! Settings that only tests and simulators need.

use std::sync::Arc;

use crate::consumer::Consumer;
use crate::idempotency::StoreSettings;
use crate::once::builder::Idempotency;
#[cfg(feature = "unstable")]
use crate::random::Random;
use crate::time::Clock;

use super::TestClock;

impl Consumer {
    /// Sets the clock of leases and expiry, for tests. Default: the machine's clock. A [`Bench`](super::Bench) sets it
    /// itself.
    pub fn clock(self, clock: TestClock) -> Self {
        self.set_shared(|settings| set_clock(settings, clock))
    }
}

impl Idempotency {
    /// Sets the clock of leases and expiry, for tests. Default: the machine's clock.
    ///
    /// ```
    /// use sqs_once::Idempotency;
    /// use sqs_once::store::MemoryStore;
    /// use sqs_once::testing::TestClock;
    ///
    /// let clock = TestClock::new();
    /// let idempotency = Idempotency::new("receipts")
    ///     .store(MemoryStore::new())
    ///     .clock(clock.clone());
    /// ```
    pub fn clock(self, clock: TestClock) -> Self {
        self.set_shared(|settings| set_clock(settings, clock))
    }
}

fn set_clock(settings: &mut StoreSettings, clock: impl Clock) {
    settings.clock = Some(Arc::new(clock));
}

/// Sets the clock and the source of randomness of a [`Consumer`] or an [`Idempotency`], for simulators.
#[cfg(feature = "unstable")]
pub trait Simulated: Sized {
    /// Sets the clock that leases and expiry are compared with. Default: the machine's clock.
    #[must_use]
    fn with_clock(self, clock: impl Clock) -> Self;

    /// Sets the source of owners and jitter. Default: the operating system's generator.
    #[must_use]
    fn with_random(self, random: impl Random) -> Self;
}

#[cfg(feature = "unstable")]
impl Simulated for Consumer {
    fn with_clock(self, clock: impl Clock) -> Self {
        self.set_shared(|settings| set_clock(settings, clock))
    }

    fn with_random(self, random: impl Random) -> Self {
        self.set_shared(|settings| settings.random = Some(Arc::new(random)))
    }
}

#[cfg(feature = "unstable")]
impl Simulated for Idempotency {
    fn with_clock(self, clock: impl Clock) -> Self {
        self.set_shared(|settings| set_clock(settings, clock))
    }

    fn with_random(self, random: impl Random) -> Self {
        self.set_shared(|settings| settings.random = Some(Arc::new(random)))
    }
}
