//! The time of day.

use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime};

/// A time in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the time of the machine's clock.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Returns the time `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the time `secs` seconds after the Unix epoch.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Returns the milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the time that has passed since `earlier`, or zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms since the epoch", self.0)
    }
}

/// Converts times before the Unix epoch to the epoch.
impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH);
        Self::default() + since_epoch.unwrap_or_default()
    }
}

/// A time that the platform can't represent becomes the end of the year 9999.
impl From<Timestamp> for SystemTime {
    fn from(at: Timestamp) -> Self {
        let latest = Self::UNIX_EPOCH + Duration::from_secs(253_402_300_799);
        Self::UNIX_EPOCH
            .checked_add(Duration::from_millis(at.0))
            .unwrap_or(latest)
    }
}

/// A source of the time of day. Leases and expirations are compared with it. Timeouts and pauses use Tokio's clock
/// instead.
///
/// Tests and simulators use their own clocks. Everything else uses that of the machine.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
