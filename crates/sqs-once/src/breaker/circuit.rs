//! What one environment knows of a breaker, and what it may start. Pure decisions.

use crate::store::Owner;
use crate::time::Timestamp;

/// What a handler's call tells about its dependencies. A call that ended otherwise tells nothing, because it may not have
/// reached them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried<'a> {
    Succeeded,
    /// The dependency with this name is unavailable.
    Unavailable(&'a str),
    /// The dependency with this name works: the call failed with its answer.
    Answered(&'a str),
    /// The call was cancelled because it took too long.
    Cancelled,
}

/// Whether a record may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Yes, as many as the consumer's concurrency allows.
    Free,
    /// At most this many more.
    Limited(usize),
    /// Not before something changes.
    Wait,
    /// Not in this batch: the breaker is open.
    Shut,
    /// Not in this batch: blocking code of cancelled calls holds every place.
    Overrun,
}

/// The state of a breaker in this environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Circuit {
    /// The count of unavailable answers in a row.
    Closed {
        failures: u32,
    },
    /// The breaker is being opened in the store.
    Opening,
    Open {
        since: Timestamp,
        until: Timestamp,
    },
    /// The time of the open breaker is over, and the store is asked.
    Asking {
        since: Timestamp,
    },
    /// This environment sends the probe.
    Probing {
        owner: Owner,
        since: Timestamp,
        until: Timestamp,
    },
    /// The breaker has closed: more records at once with each success.
    Ramping {
        limit: usize,
    },
}

/// What the end of a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Open the breaker in the store.
    Open,
    /// The probe failed: the breaker stays open.
    StaysOpen,
    /// Close the breaker in the store, as the owner of the probe.
    Close(Owner),
}

impl Circuit {
    pub(super) const CLOSED: Self = Self::Closed { failures: 0 };

    /// Returns whether any record may start, not only a probe.
    pub(super) fn starts_records(self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Ramping { .. })
    }

    /// Decides whether records may start while `in_flight` handlers run.
    pub(super) fn pass(self, in_flight: usize, now: Timestamp) -> Pass {
        let limited = |limit: usize| match limit.saturating_sub(in_flight) {
            0 => Pass::Wait,
            free => Pass::Limited(free),
        };
        match self {
            Self::Closed { .. } => Pass::Free,
            // A call that began before the breaker opened tells nothing about the service, but would pass for the probe.
            Self::Open { until, .. } if now <= until || in_flight > 0 => Pass::Shut,
            Self::Open { .. } | Self::Opening | Self::Asking { .. } => Pass::Wait,
            Self::Probing { until, .. } if now > until => Pass::Wait,
            Self::Probing { .. } => limited(1),
            Self::Ramping { limit } => limited(limit),
        }
    }

    /// Enters that blocking code of a cancelled call goes on. A further probe could leave such code, too, so that none starts
    /// in this one's time.
    pub(super) fn overrun(self) -> Self {
        match self {
            Self::Probing { since, until, .. } => Self::Open { since, until },
            same => same,
        }
    }

    /// Returns the state in which the store is asked, if the time of an open breaker, or of a probe, is over.
    pub(super) fn lapsed(self, now: Timestamp) -> Option<Self> {
        match self {
            Self::Open { since, until } | Self::Probing { since, until, .. } if now > until => {
                Some(Self::Asking { since })
            }
            _ => None,
        }
    }

    /// Enters the end of a call. `most` is the number of records at which the ramp ends.
    pub(super) fn ended(
        self,
        tried: Tried<'_>,
        threshold: u32,
        most: usize,
    ) -> (Self, Option<Next>) {
        match (self, tried) {
            (Self::Closed { failures }, Tried::Unavailable(_) | Tried::Cancelled)
                if failures + 1 >= threshold =>
            {
                (Self::Opening, Some(Next::Open))
            }
            (Self::Closed { failures }, Tried::Unavailable(_) | Tried::Cancelled) => {
                let failures = failures + 1;
                (Self::Closed { failures }, None)
            }
            (Self::Closed { .. }, Tried::Succeeded | Tried::Answered(_)) => (Self::CLOSED, None),
            (Self::Probing { since, until, .. }, Tried::Unavailable(_)) => {
                (Self::Open { since, until }, Some(Next::StaysOpen))
            }
            (Self::Probing { owner, .. }, Tried::Succeeded | Tried::Answered(_)) => {
                // The probe was the first record.
                (Self::ramping(2, most), Some(Next::Close(owner)))
            }
            (Self::Ramping { .. }, Tried::Unavailable(_) | Tried::Cancelled) => {
                (Self::Opening, Some(Next::Open))
            }
            // One more for each success doubles the number with each round.
            (Self::Ramping { limit }, Tried::Succeeded | Tried::Answered(_)) => {
                (Self::ramping(limit + 1, most), None)
            }
            // A cancelled probe may have been slow for another reason, so the next record probes.
            (same, _) => (same, None),
        }
    }

    /// The state after the breaker has closed, up to the full number.
    pub(super) fn ramping(limit: usize, most: usize) -> Self {
        match limit < most {
            true => Self::Ramping { limit },
            false => Self::CLOSED,
        }
    }
}
