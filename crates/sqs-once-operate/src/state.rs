//! The state of a key.

use std::fmt;

use sqs_once::store::{Item, Status, Timestamp};

/// The state of a key at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A worker has claimed the key, and its lease is alive.
    InProgress,
    /// The lease expired without a completion or release: the worker stopped, or was cancelled at its deadline.
    Lapsed,
    /// The handler failed and released the key, or a user forgot the key.
    Released,
    /// The effect is done, and the key is completed.
    Completed,
    /// The effect is done, but the completion has expired: a duplicate would run again.
    Expired,
    /// The item has a status that no version of the protocol writes. The key cannot be claimed.
    Unknown,
}

impl State {
    /// The state of an item at `now`.
    pub fn from_item(item: &Item, now: Timestamp) -> Self {
        // DynamoDB stores the expiry in whole seconds.
        let is_expired = item
            .expiration
            .is_some_and(|expiration| expiration.as_secs() < now.as_secs());
        match (&item.status, item.lease_until) {
            (Status::Completed, _) if is_expired => Self::Expired,
            (Status::Completed, _) => Self::Completed,
            (Status::InProgress, Some(lease)) if lease == Timestamp::default() => Self::Released,
            (Status::InProgress, Some(lease)) if lease < now => Self::Lapsed,
            // Powertools writes no lease if it does not know the deadline.
            (Status::InProgress, None) if is_expired => Self::Lapsed,
            (Status::InProgress, _) => Self::InProgress,
            (Status::Unknown(_), _) => Self::Unknown,
        }
    }

    /// The state's name, for example `in-progress`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InProgress => "in-progress",
            Self::Lapsed => "lapsed",
            Self::Released => "released",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
