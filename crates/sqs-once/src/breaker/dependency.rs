//! A service that handlers call, and the settings of its breaker.

use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Once};
use std::time::Duration;

use tracing::warn;

use crate::error::ConfigError;
use crate::handler::{HandlerError, as_type};
use crate::idempotency::breaker::is_name;
use crate::time::Timestamp;

use super::LOG;

const FAILURES: u32 = 3;
const PROBE_EVERY: Duration = Duration::from_secs(30);
const OUTAGE: Duration = Duration::from_secs(24 * 60 * 60);

type IsUnavailable = Arc<dyn Fn(&(dyn Error + 'static)) -> bool + Send + Sync>;

/// Recognises the dependency's errors.
#[derive(Clone)]
struct Check {
    is_unavailable: IsUnavailable,
    /// Whether an error with such a cause counts.
    by_cause: bool,
}

/// A service that a consumer's handler calls: see [`Handler::depends_on`](crate::Handler::depends_on).
///
/// ```
/// use std::io;
/// use sqs_once::policy::Dependency;
///
/// let payments = Dependency::new("payments")
///     .unavailable_if(|error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused)
///     .max_in_flight(8);
/// ```
#[derive(Clone)]
pub struct Dependency {
    name: Arc<str>,
    pub(super) failures: u32,
    pub(super) probe_every: Duration,
    pub(super) outage: Duration,
    pub(crate) max_in_flight: Option<usize>,
    checks: Vec<Check>,
    /// For the warning about an error that has such a cause but does not count.
    warned: Arc<Once>,
}

impl Dependency {
    /// Creates a dependency. All consumers on one table that depend on the same name share its breaker.
    ///
    /// A name has 1 to 50 ASCII letters, digits, `-`, `_` and `.`. Other names fail at
    /// [`init`](crate::Consumer::init).
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            failures: FAILURES,
            probe_every: PROBE_EVERY,
            outage: OUTAGE,
            max_in_flight: None,
            checks: Vec::new(),
            warned: Arc::new(Once::new()),
        }
    }

    /// Sets how many handler calls in a row must report the dependency as unavailable before this environment opens the
    /// breaker. Default: 3. Zero fails at [`init`](crate::Consumer::init). Other errors neither count nor reset the count.
    #[must_use]
    pub fn failures(mut self, failures: usize) -> Self {
        self.failures = u32::try_from(failures).unwrap_or(u32::MAX);
        self
    }

    /// Sets how long the breaker stays open before one message is tried. Default: 30 s. Zero fails at
    /// [`init`](crate::Consumer::init).
    #[must_use]
    pub fn probe_every(mut self, pause: Duration) -> Self {
        self.probe_every = pause;
        self
    }

    /// Sets the length of the outage that messages should survive. Default: 24 h. The consumer spreads the remaining
    /// deliveries of a message over this time. A shorter time brings messages back sooner after an outage. Times below the
    /// pause of [`probe_every`](Self::probe_every) fail at [`init`](crate::Consumer::init).
    #[must_use]
    pub fn outage(mut self, outage: Duration) -> Self {
        self.outage = outage;
        self
    }

    /// Sets how many handlers of this environment may call the dependency at once. Default: as many as the consumer's
    /// concurrency allows. Zero fails at [`init`](crate::Consumer::init). The single call of a batch handler counts as
    /// one. Blocking code that goes on after its handler was cancelled counts like the handler.
    #[must_use]
    pub fn max_in_flight(mut self, handlers: usize) -> Self {
        self.max_in_flight = Some(handlers);
        self
    }

    /// Treats a handler's error as [`unavailable`](HandlerError::into_unavailable) if it is an `E`, also in a `Box` or an
    /// `Arc`, for which `is_unavailable` returns `true`. The causes of the error do not count, since another service's error
    /// may have an `E` as its cause: see [`unavailable_if_caused_by`](Self::unavailable_if_caused_by). Several calls add up.
    /// Errors whose disposition the handler or their [type](trait@crate::handler::ErrorDisposition) chose stay what they are.
    #[must_use]
    pub fn unavailable_if<E: Error + 'static>(
        self,
        is_unavailable: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.check(false, is_unavailable)
    }

    /// Does the same as [`unavailable_if`](Self::unavailable_if) if the error, or one of its causes, is such an `E`.
    ///
    /// Use a type that only errors of this dependency contain. Otherwise an outage of another service opens this breaker.
    #[must_use]
    pub fn unavailable_if_caused_by<E: Error + 'static>(
        self,
        is_unavailable: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.check(true, is_unavailable)
    }

    fn check<E: Error + 'static>(
        mut self,
        by_cause: bool,
        is_unavailable: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(Check {
            is_unavailable: Arc::new(move |error| as_type::<E>(error).is_some_and(&is_unavailable)),
            by_cause,
        });
        self
    }

    /// Returns when an environment asks again about a breaker that is open until `until`. An operator may open one for
    /// hours, and close it earlier.
    pub(super) fn asks_by(&self, until: Timestamp, now: Timestamp) -> Timestamp {
        until.min(now + self.probe_every)
    }

    /// Returns whether another dependency has the same numbers.
    pub(crate) fn is_set_like(&self, other: &Self) -> bool {
        let numbers = |one: &Self| (one.failures, one.probe_every, one.outage, one.max_in_flight);
        numbers(self) == numbers(other)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns whether the dependency recognises the error as an outage of its own.
    pub(crate) fn recognises(&self, error: &HandlerError) -> bool {
        if error.answered_by().is_some_and(|by| **by == *self.name) {
            return false;
        }
        let mut is_caused_by_it = false;
        for check in &self.checks {
            match error.causes().position(|it| (check.is_unavailable)(it)) {
                None => {}
                Some(depth) if depth == 0 || check.by_cause => return true,
                Some(_) => is_caused_by_it = true,
            }
        }
        if is_caused_by_it {
            self.warned.call_once(|| {
                warn!(
                    target: LOG,
                    dependency = &*self.name,
                    "an error does not count for the breaker, because only a cause of it matches `unavailable_if`: to \
                     count it, use `unavailable_if_caused_by`"
                );
            });
        }
        false
    }
}

/// Creates a dependency with the default settings.
impl From<&str> for Dependency {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Debug for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dependency")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Checks the dependencies of a consumer.
pub(crate) fn checked(all: &[Dependency]) -> Result<(), ConfigError> {
    let wrong = |problem: String, expected: &'static str| {
        Err(ConfigError::invalid(
            "the setting `depends_on`",
            problem,
            expected,
        ))
    };
    for (at, one) in all.iter().enumerate() {
        let name = &one.name;
        if !is_name(name) {
            return wrong(
                format!("names the dependency {name:?}"),
                "1 to 50 ASCII letters, digits, `-`, `_` and `.`",
            );
        }
        if all[..at].iter().any(|other| other.name == *name) {
            return wrong(format!("names {name:?} twice"), "each dependency once");
        }
        let is_zero = one.failures == 0
            || one.probe_every.is_zero()
            || one.max_in_flight.map(NonZeroUsize::new) == Some(None);
        if is_zero {
            return wrong(
                format!("has a 0 for {name:?}"),
                "1 or more for `failures` and `max_in_flight`, and more than zero for `probe_every`",
            );
        }
        if one.outage < one.probe_every {
            return wrong(
                format!("has an outage of {:?} for {name:?}", one.outage),
                "an outage that is no shorter than the pause between probes",
            );
        }
    }
    Ok(())
}
