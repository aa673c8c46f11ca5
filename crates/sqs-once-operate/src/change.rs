//! Manual changes to a key, a breaker or a message group.

use sqs_once::key::ItemId;
use sqs_once::store::{Fence, Item, Owner, Status, Timestamp};

use crate::block::lifted;
use crate::breaker::opened;

/// A manual change to a key, a breaker or a message group.
///
/// Each change writes a new owner. The previous owner can no longer complete or release the key, however late its
/// request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The next message with this key runs, as its first attempt, with the token of earlier attempts, whatever
    /// [`unknown_outcome`](sqs_once::Handler::unknown_outcome) sets for those. The item stays with an expired lease, since
    /// deleting it would restart the fence.
    Forget,
    /// Messages with this key are duplicates until `expiration`. An already completed key keeps a later expiry.
    ///
    /// Closes a breaker, which opens again after `expiration`.
    Complete {
        /// The expiry, rounded up to the second when stored.
        expiration: Timestamp,
    },
    /// Lets a FIFO message group go on that waits behind a dead letter. Those that went behind it run when they come back,
    /// in any order.
    Unblock,
    /// Opens a breaker. Until then, messages that depend on it return to the queue.
    Open {
        /// When a worker may send a probe.
        until: Timestamp,
    },
}

impl Change {
    /// The item to write in place of `seen`. `None` if nothing has to change: a key without an item is already
    /// forgotten.
    pub fn write(
        &self,
        id: &ItemId,
        seen: Option<&Item>,
        owner: Owner,
        now: Timestamp,
    ) -> Option<Item> {
        let mut item = match (self, seen) {
            (Self::Open { until }, _) => return Some(opened(id, seen, *until, owner, now)),
            (Self::Unblock, _) => return lifted(seen, owner, now),
            (Self::Forget, None) => return None,
            (_, Some(seen)) => seen.clone(),
            (Self::Complete { .. }, None) => {
                let mut item = Item::new(id.clone(), Status::InProgress);
                item.fence = Some(Fence::first(now));
                item
            }
        };
        match self {
            Self::Forget => {
                item.status = Status::InProgress;
                item.lease_until = Some(Timestamp::default());
                item.data = None;
                // The fence tells the time of the first attempt.
                let next = item.fence.map(Fence::next).unwrap_or_default();
                item.fence = Some(next.max(Fence::first(now)));
            }
            Self::Open { .. } | Self::Unblock => {}
            Self::Complete { expiration } => {
                let expiration = Timestamp::from_secs(expiration.as_millis().div_ceil(1000));
                item.expiration = match item.status {
                    // A completion without an expiry never expires.
                    Status::Completed => item.expiration.map(|ends| ends.max(expiration)),
                    _ => Some(expiration),
                };
                item.status = Status::Completed;
            }
        }
        item.owner = Some(owner);
        Some(item)
    }
}
