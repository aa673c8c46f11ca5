//! Injected faults, drawn from a seed.

use crate::lock;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest delay of a slow invocation.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// How often each fault is injected. The default injects none.
///
/// The same seed draws the same chances in the same order. Which invocation gets which chance also depends on the order
/// in which the invocations start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    /// The seed of all chances.
    #[serde(skip)]
    pub seed: u64,
    /// The share of messages that are delivered twice. The second delivery goes to another execution environment at the
    /// same time, or follows the first one's success, before the message is deleted. On a FIFO queue, which keeps
    /// groups in order, it always follows the success.
    pub duplicate: Percent,
    /// The share of invocations whose process is killed at a random moment.
    pub kill: Percent,
    /// The share of answers that are lost, so that the whole batch returns to the queue.
    pub drop_response: Percent,
    /// The share of invocations that start late, by up to 5 s, while the visibility timeouts of their messages run.
    pub slow: Percent,
    /// The share of invocations that exceed the timeout whose process is not killed. It goes on, gets a 410 for its
    /// late answer, and then takes the next event.
    pub outlive: Percent,
}

/// The faults of a [`Poller`](super::Poller), which can be changed while it runs. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct FaultControls(Arc<Mutex<Faults>>);

impl FaultControls {
    /// Starts with these faults.
    pub fn new(faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(faults)))
    }

    /// The current faults.
    pub fn get(&self) -> Faults {
        *lock(&self.0)
    }

    /// Changes the faults of the next deliveries. The seed stays.
    pub fn set(&self, faults: Faults) {
        let mut current = lock(&self.0);
        let seed = current.seed;
        *current = Faults { seed, ..faults };
    }
}

impl From<Faults> for FaultControls {
    fn from(faults: Faults) -> Self {
        Self::new(faults)
    }
}

/// A percentage from 0 to 100, written as `20%`. In JSON it is a number.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Percent(f64);

impl Percent {
    /// 100%.
    pub const ALL: Self = Self(100.0);

    /// Whether this is 0%.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, PercentError> {
        let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
        let percent = number.and_then(|number: f64| Self::try_from(number).ok());
        percent.ok_or_else(|| PercentError(text.to_owned()))
    }
}

impl TryFrom<f64> for Percent {
    type Error = PercentError;

    fn try_from(number: f64) -> Result<Self, PercentError> {
        let is_share = (0.0..=100.0).contains(&number);
        let percent = is_share.then_some(Self(number));
        percent.ok_or_else(|| PercentError(format!("{number}%")))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// The text is not a percentage.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share between 0% and 100%, such as 20% or 0.5%")]
pub struct PercentError(String);

/// Draws the faults: the shares and the state of the random generator.
pub(super) struct FaultSource {
    controls: FaultControls,
    random: Mutex<fastrand::Rng>,
    /// A moving average of how long invocations take. It determines when kills happen.
    usual: Mutex<Duration>,
}

impl FaultSource {
    pub(super) fn new(controls: FaultControls) -> Self {
        Self {
            random: Mutex::new(fastrand::Rng::with_seed(controls.get().seed)),
            controls,
            usual: Mutex::new(Duration::from_millis(20)),
        }
    }

    fn draw(&self) -> f64 {
        lock(&self.random).f64()
    }

    fn happens(&self, share: Percent) -> bool {
        // A fault that is switched off draws nothing, so it does not shift the chances of the others.
        !share.is_zero() && self.draw() * 100.0 < share.0
    }

    pub(super) fn duplicates(&self) -> bool {
        self.happens(self.controls.get().duplicate)
    }

    /// Whether the duplicate is delivered at the same time, rather than after the success.
    pub(super) fn at_once(&self) -> bool {
        self.draw() < 0.5
    }

    pub(super) fn drops_response(&self) -> bool {
        self.happens(self.controls.get().drop_response)
    }

    pub(super) fn outlives(&self) -> bool {
        self.happens(self.controls.get().outlive)
    }

    /// How long to delay an invocation, if at all.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.happens(self.controls.get().slow)
            .then(|| LONGEST_DELAY.mul_f64(self.draw()))
    }

    /// How long after its start to kill an invocation's process: a random share of the usual duration.
    pub(super) fn kill_after(&self) -> Option<Duration> {
        let usual = *lock(&self.usual);
        self.happens(self.controls.get().kill)
            .then(|| usual.mul_f64(self.draw()))
    }

    /// Updates the usual duration with the time that an invocation took.
    pub(super) fn took(&self, time: Duration) {
        let mut usual = lock(&self.usual);
        *usual = (*usual * 3 + time) / 4;
    }
}
