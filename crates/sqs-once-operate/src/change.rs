//! Manual changes to a key.

use sqs_once::key::ItemId;
use sqs_once::store::{Fence, Item, Owner, Status};
use sqs_once::time::Timestamp;

/// A manual change to a key.
///
/// Each change writes a new owner. The previous owner can no longer complete or release the key, however late its
/// request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next message with this key runs. The item stays with an expired lease, since deleting it would restart the
    /// fence.
    Forget,
    /// Messages with this key are duplicates until `expiration`. An already completed key keeps a later expiry.
    Complete {
        /// The expiry, rounded up to the second when stored.
        expiration: Timestamp,
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
        match (self, seen) {
            (Self::Forget, None) => None,
            (Self::Forget, Some(seen)) => Some({
                let mut item = seen.clone();
                item.status = Status::InProgress;
                item.lease_until = Some(Timestamp::default());
                item.owner = Some(owner);
                item.data = None;
                item
            }),
            (Self::Complete { expiration }, seen) => {
                let expiration = Timestamp::from_secs(expiration.as_millis().div_ceil(1000));
                let expiration = match seen {
                    Some(done) if done.status == Status::Completed => {
                        // A completion without an expiry never expires.
                        done.expiration.map(|ends| ends.max(expiration))
                    }
                    _ => Some(expiration),
                };
                let fence = seen.map_or(Some(Fence::first(now)), |seen| seen.fence);
                Some({
                    let mut item = Item::new(id.clone(), Status::Completed);
                    item.lease_until = seen.and_then(|seen| seen.lease_until);
                    item.expiration = expiration;
                    item.fingerprint = seen.and_then(|seen| seen.fingerprint.clone());
                    item.data = seen.and_then(|seen| seen.data.clone());
                    item.owner = Some(owner);
                    item.fence = fence;
                    item
                })
            }
        }
    }
}
