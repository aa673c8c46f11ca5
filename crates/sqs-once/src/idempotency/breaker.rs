//! The item that environments share for the breaker of one dependency: its state, and the claims that open it.

use std::time::Duration;

use crate::key::ItemId;
use crate::store::{Claim, Item, Owner, Seen, Settlement, Settling, Status};
use crate::time::Timestamp;

const LONGEST_NAME: usize = 50;

/// The start of every breaker's id.
pub const PREFIX: &str = "breaker#";

/// How long the table keeps the item of an open breaker, counted from its opening. So the item's expiry tells when the
/// breaker opened.
const KEPT: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// Returns whether a dependency can have this name: 1 to 50 ASCII letters, digits, `-`, `_` and `.`.
pub fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Returns the id of a breaker's item. No key has this id: a key's id ends in 64 hexadecimal digits, or contains a `:`.
pub fn item_id(name: &str) -> ItemId {
    ItemId::from_stored(format!("{PREFIX}{name}"))
}

/// The state of a breaker that environments share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// Messages are handled.
    Closed,
    /// Messages return to the queue.
    Open {
        /// The start of the outage.
        since: Timestamp,
        /// When a worker may send a probe.
        until: Timestamp,
    },
    /// The worker whose claim replaces exactly this item sends the probe.
    HalfOpen {
        /// The start of the outage.
        since: Timestamp,
        /// The item that the claim must have seen.
        seen: Seen,
    },
}

impl Shared {
    /// Returns the state of a breaker with this item at `now`.
    pub fn of(item: Option<&Item>, now: Timestamp) -> Self {
        let Some(item) = item else {
            return Self::Closed;
        };
        match (&item.status, item.lease_until) {
            (Status::InProgress, Some(until)) => {
                let since = since(item).unwrap_or(now);
                match until < now {
                    true => Self::HalfOpen {
                        since,
                        seen: Seen::Item(item.fence),
                    },
                    false => Self::Open { since, until },
                }
            }
            // An item that no version writes must not hold messages back.
            _ => Self::Closed,
        }
    }
}

fn since(item: &Item) -> Option<Timestamp> {
    let kept = KEPT.as_millis() as u64;
    let opened = item.expiration?.as_millis().checked_sub(kept)?;
    Some(Timestamp::from_millis(opened))
}

/// Creates the claim that opens the breaker until `until`, or elects the probe. `since` is the start of the outage.
pub fn claim(
    id: &ItemId,
    owner: Owner,
    now: Timestamp,
    (since, until): (Timestamp, Timestamp),
    seen: Seen,
) -> Claim {
    let expiration = (since + KEPT).max(until);
    let mut claim = Claim::new(id.clone(), owner, now, until, expiration);
    claim.seen = seen;
    claim
}

/// Returns the expiration of the item of a breaker that closes now. It is past, also for a worker whose clock is a minute
/// behind, so that the breaker can open again at once.
pub fn closed_until(now: Timestamp) -> Timestamp {
    Timestamp::from_secs(now.as_secs().saturating_sub(61))
}

/// Creates the settlement with which the owner of the probe closes the breaker.
pub fn closing(id: &ItemId, owner: Owner, now: Timestamp) -> Settlement {
    let closed = Settling::complete(closed_until(now), None);
    Settlement::new(id.clone(), owner, closed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fence;

    const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

    fn owner(bits: u128) -> Owner {
        Owner::from_bits(bits)
    }

    fn after(secs: u64) -> Timestamp {
        NOW + Duration::from_secs(secs)
    }

    #[test]
    fn an_open_breaker_tells_since_when_and_until_when() {
        let id = item_id("payments");
        let opened = claim(&id, owner(1), NOW, (NOW, after(30)), Seen::Nothing).write(None);
        let (since, until) = (NOW, after(30));
        assert_eq!(
            Shared::of(Some(&opened), after(30)),
            Shared::Open { since, until }
        );
        let seen = Seen::Item(Some(Fence::first(NOW)));
        assert_eq!(
            Shared::of(Some(&opened), after(31)),
            Shared::HalfOpen { since, seen }
        );
        // A probe keeps the time of the opening.
        let probe = claim(&id, owner(2), after(31), (since, after(61)), seen);
        assert!(probe.admitted_by(Some(&opened)));
        let probed = probe.write(Some(&opened));
        let until = after(61);
        assert_eq!(
            Shared::of(Some(&probed), after(40)),
            Shared::Open { since, until }
        );
        // The election is over for those who saw the same item.
        assert!(
            !claim(&id, owner(3), after(31), (since, after(61)), seen).admitted_by(Some(&probed))
        );
        let closing = closing(&id, owner(2), after(35));
        assert!(closing.admitted_by(Some(&probed)));
        let closed = closing.write(Some(&probed));
        assert_eq!(Shared::of(Some(&closed), after(35)), Shared::Closed);
        // It opens again at once, also by a clock that is behind.
        for now in [after(34), after(35)] {
            let again = claim(&id, owner(4), now, (now, after(65)), Seen::Nothing);
            assert!(again.finds_free(&closed));
        }
        assert_eq!(Shared::of(None, NOW), Shared::Closed);
    }
}
