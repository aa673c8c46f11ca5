//! What people may make of a key.

use sqs_once::key::ItemId;
use sqs_once::store::{Fence, Item, Owner, Status};
use sqs_once::time::Timestamp;

/// What is made of a key.
///
/// Either writes an owner of its own: whoever had the key before can neither complete nor release it from
/// then on, however late that request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The next message with this key runs. The item stays, with a lapsed lease: deleting it would let the
    /// fence start afresh.
    Forget,
    /// Messages with this key are duplicates, until this moment; or longer, if they are that already.
    Complete {
        /// The expiry; kept rounded up to the second.
        expiration: Timestamp,
    },
}

impl Change {
    /// The item that is written where `seen` stands; `None` when there is nothing to do: a key that
    /// nothing is known of is forgotten already.
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
                        // One without an expiry never ends.
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
