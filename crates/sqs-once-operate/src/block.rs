//! FIFO message groups that wait behind a dead letter.

use sqs_once::store::{Item, Owner, Seen, Settled, StoreError, StoreErrorKind, Timestamp};
use sqs_once::unstable::block::{Block, item_id};
use sqs_once::unstable::new_owner;

use crate::{DeadLetter, DeadLetters, Error};

/// How often a change of a block is tried while consumers change it too.
const TRIES: usize = 10;

impl DeadLetters {
    /// Ends the place of a message that is deleted, so that its group does not wait for it.
    pub(crate) async fn end_place(&self, letter: &DeadLetter) -> Result<(), Error> {
        let Some(place) = letter.place() else {
            return Ok(());
        };
        let unknown = || Error::Place {
            id: letter.id().to_owned(),
        };
        let keys = self.keys().ok_or_else(unknown)?;
        let group = letter.system("MessageGroupId").ok_or_else(unknown)?;
        let queue = letter.source_arn().ok_or_else(unknown)?;
        let id = item_id(queue, group);
        for _ in 0..TRIES {
            let seen = keys.read(std::slice::from_ref(&id)).await?.pop();
            let seen = seen.ok_or_else(unknown)?;
            let block = Block::from_item(&seen).ok_or_else(unknown)?;
            // Another block is over, or its places are others.
            let is_its = block.number == place.block;
            let Some(block) = block.after_end(place.place).filter(|_| is_its) else {
                return Ok(());
            };
            let new = written(&block, &seen, new_owner(), Timestamp::now());
            if keys.replace(Some(&seen), &new).await? == Settled::Written {
                return Ok(());
            }
        }
        let contended = "consumers change the block of its group faster than it can be changed";
        Err(StoreError::new(StoreErrorKind::Throttled, contended).into())
    }
}

/// The item of a changed block. Its fence refuses what consumers have decided by the last one.
fn written(block: &Block, seen: &Item, owner: Owner, now: Timestamp) -> Item {
    block
        .claim(owner, now, Seen::Item(seen.fence))
        .write(Some(seen))
}

/// The item of a block that is lifted by hand. `None` if there is no block, or nobody waits.
pub(crate) fn lifted(seen: Option<&Item>, owner: Owner, now: Timestamp) -> Option<Item> {
    let mut block = Block::from_item(seen?).filter(Block::stands)?;
    block.ended = block.places;
    block.dropped.clear();
    Some(written(&block, seen?, owner, now))
}
