//! The breakers of dependencies: one item each, beside the keys.

use std::fmt;

use sqs_once::key::ItemId;
use sqs_once::store::{Item, Owner, Seen, Status, Timestamp};
use sqs_once::unstable::breaker::{self, Shared};

use crate::Error;

/// The name of a dependency, and so of its breaker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakerName(String);

impl BreakerName {
    /// Before the name in the ID of the breaker's item.
    pub const PREFIX: &str = breaker::PREFIX;

    /// Checks a name: 1 to 50 ASCII letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// [`Error::BreakerName`] for any other text.
    pub fn new(name: &str) -> Result<Self, Error> {
        match breaker::is_name(name) {
            true => Ok(Self(name.to_owned())),
            false => Err(Error::BreakerName {
                name: name.to_owned(),
            }),
        }
    }

    /// The name in the ID of an item. `None` for the ID of a key, which ends in 64 hexadecimal digits or contains a `:`.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::new(id.strip_prefix(Self::PREFIX)?).ok()
    }

    /// The ID of the breaker's item.
    pub fn id(&self) -> ItemId {
        breaker::item_id(&self.0)
    }
}

impl fmt::Display for BreakerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The state of a breaker at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Messages are handled.
    Closed,
    /// Messages that depend on it return to the queue.
    Open {
        /// The start of the outage.
        since: Timestamp,
        /// When a worker may send a probe.
        until: Timestamp,
    },
    /// The next worker that claims the item sends a probe.
    HalfOpen {
        /// The start of the outage.
        since: Timestamp,
    },
    /// The item has a status that no version of the protocol writes. Workers treat the breaker as closed.
    Unknown,
}

impl BreakerState {
    /// The state of a breaker with this item at `now`.
    pub fn from_item(item: Option<&Item>, now: Timestamp) -> Self {
        match Shared::of(item, now) {
            Shared::Open { since, until } => Self::Open { since, until },
            Shared::HalfOpen { since, .. } => Self::HalfOpen { since },
            Shared::Closed => match item.map(|item| &item.status) {
                None | Some(Status::Completed) => Self::Closed,
                Some(_) => Self::Unknown,
            },
        }
    }

    /// The state's name, for example `half-open`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half-open",
            Self::Unknown => "unknown",
        }
    }
}

/// The claim that opens a breaker until `until`. The start of an outage stays.
pub(crate) fn opened(
    id: &ItemId,
    seen: Option<&Item>,
    until: Timestamp,
    owner: Owner,
    now: Timestamp,
) -> Item {
    let since = match Shared::of(seen, now) {
        Shared::Open { since, .. } | Shared::HalfOpen { since, .. } => since,
        Shared::Closed => now,
    };
    breaker::claim(id, owner, now, (since, until), Seen::Nothing).write(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;
    use sqs_once::store::{Claim, Fence};
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

    fn id() -> ItemId {
        BreakerName::new("payments").unwrap().id()
    }

    fn after(secs: u64) -> Timestamp {
        NOW + Duration::from_secs(secs)
    }

    /// Whether a worker that saw the item can claim it.
    fn is_free(item: &Item, now: Timestamp) -> bool {
        let lease = now + Duration::from_secs(30);
        let mut claim = Claim::new(id(), Owner::from_bits(9), now, lease, lease);
        claim.seen = Seen::Item(item.fence);
        claim.admitted_by(Some(item))
    }

    #[test]
    fn a_breaker_opened_by_hand_is_free_for_a_probe_when_its_time_is_over() {
        let open = |seen: Option<&Item>, until, owner| {
            let (open, owner) = (Change::Open { until }, Owner::from_bits(owner));
            open.write(&id(), seen, owner, NOW).unwrap()
        };
        let opened = open(None, after(60), 1);
        let (since, until) = (NOW, after(60));
        let state = |secs| BreakerState::from_item(Some(&opened), after(secs));
        assert_eq!(state(60), BreakerState::Open { since, until });
        assert!(!is_free(&opened, after(60)));
        assert_eq!(state(61), BreakerState::HalfOpen { since });
        assert!(is_free(&opened, after(61)));
        assert_eq!(opened.fence, Some(Fence::first(NOW)));
        // The table must not delete an open breaker.
        let opened = open(Some(&opened), after(90 * 24 * 60 * 60), 2);
        assert!(opened.expiration >= opened.lease_until);
    }

    #[test]
    fn the_id_of_a_key_names_no_breaker() {
        let hash = format!("breaker#{}", "0".repeat(64));
        for id in [
            &hash,
            "breaker#s:a",
            "breaker#",
            "payments#a",
            "breaker#a b",
        ] {
            assert_eq!(BreakerName::from_id(id), None, "{id}");
        }
        let longest = "a".repeat(50);
        for name in ["a", "tax-v2_x.y", &longest] {
            let found = BreakerName::from_id(BreakerName::new(name).unwrap().id().as_str());
            assert_eq!(found, BreakerName::new(name).ok());
        }
    }
}
