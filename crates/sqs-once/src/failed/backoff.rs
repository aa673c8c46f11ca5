//! How long a failed message stays hidden in the queue.

#[cfg(any(feature = "sqs", test))]
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::ConfigError;

/// The bounds of the time for which a message that returns to the queue stays hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    floor: Duration,
    ceiling: Duration,
}

impl Backoff {
    #[cfg(any(feature = "sqs", test))]
    pub(crate) fn new(bounds: RangeInclusive<Duration>) -> Self {
        let (floor, ceiling) = bounds.into_inner();
        Self { floor, ceiling }
    }

    pub(crate) fn check(self) -> Result<(), ConfigError> {
        if !self.floor.is_zero() && self.floor <= self.ceiling {
            return Ok(());
        }
        Err(ConfigError::invalid(
            "the setting `backoff`",
            format!("grows from {:?} to {:?}", self.floor, self.ceiling),
            "a floor above zero, and a ceiling that is no shorter",
        ))
    }

    /// Returns the time after the `receive_count`th delivery. `bits` are random.
    pub(crate) fn after(self, receive_count: u32, bits: u128) -> Duration {
        let doublings = receive_count.clamp(1, 31);
        let longest = self.floor.saturating_mul(1 << doublings).min(self.ceiling);
        let shortest = self.floor.max(longest / 2);
        let share = f64::from(bits as u32) / f64::from(u32::MAX);
        shortest + (longest - shortest).mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_doubles_up_to_the_ceiling_and_stays_between_its_bounds() {
        let backoff = Backoff::new(5 * SECOND..=60 * SECOND);
        for (receive_count, shortest, longest) in [
            (0, 5, 10),
            (1, 5, 10),
            (2, 10, 20),
            (3, 20, 40),
            (4, 30, 60),
            (5, 30, 60),
            (u32::MAX, 30, 60),
        ] {
            assert_eq!(backoff.after(receive_count, 0), shortest * SECOND);
            assert_eq!(backoff.after(receive_count, u128::MAX), longest * SECOND);
        }
    }

    #[test]
    fn a_floor_that_is_the_ceiling_leaves_nothing_to_chance() {
        let backoff = Backoff::new(SECOND..=SECOND);
        assert_eq!(backoff.after(7, 12345), SECOND);
        let longest = Backoff::new(Duration::MAX..=Duration::MAX);
        assert_eq!(longest.after(2, u128::MAX), Duration::MAX);
    }
}
