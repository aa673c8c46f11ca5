//! Faults on request, drawn from a seed.

use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a late invocation waits at most.
const LATEST: Duration = Duration::from_secs(5);

/// How often which fault is done. By default none is.
///
/// The same seed draws the same chances in the same order; which invocation gets which also depends on the order in
/// which they start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Faults {
    /// What all chances are drawn from.
    pub seed: u64,
    /// How many messages are delivered twice: at the same time to another execution environment, or once more after
    /// their success, before they are deleted. Those of a FIFO queue, which keeps groups in order, only the latter.
    pub duplicate: Percent,
    /// How many invocations have their process killed at a random moment.
    pub kill: Percent,
    /// How many answers are lost on their way, so that the whole batch comes back.
    pub drop_response: Percent,
    /// How many invocations start late, by up to 5 s, while the visibility timeouts of their messages run.
    pub slow: Percent,
}

/// A share between nothing and everything, written as `20%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Percent(f64);

impl Percent {
    /// Everything.
    pub const ALL: Self = Self(100.0);

    /// Whether this is nothing.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, PercentError> {
        let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
        number
            .filter(|number| (0.0..=100.0).contains(number))
            .map(Self)
            .ok_or_else(|| PercentError(text.to_owned()))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// A text that is no share.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share between 0% and 100%, such as 20% or 0.5%")]
pub struct PercentError(String);

/// The fate of invocations and messages: [`Faults`] and the chances drawn so far.
pub(super) struct Fate {
    faults: Faults,
    chance: Mutex<fastrand::Rng>,
    /// How long invocations take, about. A kill is timed by it.
    usual: Mutex<Duration>,
}

impl Fate {
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            faults,
            chance: Mutex::new(fastrand::Rng::with_seed(faults.seed)),
            usual: Mutex::new(Duration::from_millis(20)),
        }
    }

    fn draw(&self) -> f64 {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        chance.f64()
    }

    fn happens(&self, share: Percent) -> bool {
        // A fault that nobody asked for takes no chance from the others.
        !share.is_zero() && self.draw() * 100.0 < share.0
    }

    pub(super) fn duplicates(&self) -> bool {
        self.happens(self.faults.duplicate)
    }

    /// Whether a duplicate comes at the same time, rather than after the success.
    pub(super) fn at_once(&self) -> bool {
        self.draw() < 0.5
    }

    pub(super) fn drops_response(&self) -> bool {
        self.happens(self.faults.drop_response)
    }

    /// How long an invocation waits before it starts.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.happens(self.faults.slow)
            .then(|| LATEST.mul_f64(self.draw()))
    }

    /// How long after its start an invocation's process is killed: at any time of an invocation that takes as long as
    /// they usually do.
    pub(super) fn kill_after(&self) -> Option<Duration> {
        let usual = *self.usual.lock().unwrap_or_else(PoisonError::into_inner);
        self.happens(self.faults.kill)
            .then(|| usual.mul_f64(self.draw()))
    }

    /// Notes how long an invocation took.
    pub(super) fn took(&self, time: Duration) {
        let mut usual = self.usual.lock().unwrap_or_else(PoisonError::into_inner);
        *usual = (*usual * 3 + time) / 4;
    }
}
