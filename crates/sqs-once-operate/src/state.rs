//! How far the work for a key has come.

use std::fmt;

use sqs_once::store::{Item, Status};
use sqs_once::time::Timestamp;

/// How far the work for a key has come, at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Somebody has claimed the key, and the lease is not over.
    InProgress,
    /// The lease is over and nobody said how it went: the attempt died, or was cancelled at its deadline.
    Lapsed,
    /// The attempt failed and gave the key back, or somebody forgot the key.
    Released,
    /// The effect is done and recorded.
    Completed,
    /// The same, but the record is past its expiry: a duplicate would run again.
    Expired,
    /// The item has a status that no version of the protocol writes. Nobody can claim the key.
    Unknown,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::InProgress,
        Self::Lapsed,
        Self::Released,
        Self::Completed,
        Self::Expired,
        Self::Unknown,
    ];

    /// The state of an item at `now`.
    pub fn from_item(item: &Item, now: Timestamp) -> Self {
        // DynamoDB keeps the expiry in whole seconds.
        let is_expired = item
            .expiration
            .is_some_and(|expiration| expiration.as_secs() < now.as_secs());
        match (&item.status, item.lease_until) {
            (Status::Completed, _) if is_expired => Self::Expired,
            (Status::Completed, _) => Self::Completed,
            (Status::InProgress, Some(lease)) if lease == Timestamp::default() => Self::Released,
            (Status::InProgress, Some(lease)) if lease < now => Self::Lapsed,
            // Powertools writes no lease when it knows no deadline.
            (Status::InProgress, None) if is_expired => Self::Lapsed,
            (Status::InProgress, _) => Self::InProgress,
            (Status::Unknown(_), _) => Self::Unknown,
        }
    }

    /// Whether the next message with this key would run.
    pub const fn is_free(self) -> bool {
        matches!(self, Self::Lapsed | Self::Released | Self::Expired)
    }

    /// Its name in one word, such as `in-progress`.
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
