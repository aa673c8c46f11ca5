//! The library's items, times and fences, and the model's.

use std::time::Duration;

use sqs_once::key::ItemId;
use sqs_once::store::{self, Fence, Owner, Status, Timestamp};

use super::super::config::Config;
use super::super::fence::Mark;
use super::super::state::{Delivery, Item};

/// The time of tick 0. A released lease is the epoch, which is far earlier.
const NOW: u64 = 1_000_000;
/// Longer than any message in the model lives.
pub(super) const RETENTION: Duration = Duration::from_secs(1_000_000);
/// Fences are in milliseconds. No key has as many claims as a tick has milliseconds.
const TICK: u64 = 1000;

pub(super) fn as_owner(delivery: Delivery) -> Owner {
    Owner::from_bits(u128::from(delivery.message) * 256 + u128::from(delivery.receive))
}

/// Each decision concerns one key, so all keys can share one id.
pub(super) fn id() -> ItemId {
    thread_local!(static ID: ItemId = ItemId::from_stored("model#key"));
    ID.with(Clone::clone)
}

pub(super) fn at(tick: i8) -> Timestamp {
    Timestamp::from_secs(NOW.saturating_add_signed(i64::from(tick)))
}

/// `None` for the epoch, which is the lease of a released claim.
pub(super) fn ticks(at: Timestamp) -> Option<i8> {
    let tick = i128::from(at.as_secs()) - i128::from(NOW);
    i8::try_from(tick).ok()
}

pub(super) fn decode(item: Item) -> store::Item {
    let mut new = store::Item::new(
        id(),
        match item.completed {
            true => Status::Completed,
            false => Status::InProgress,
        },
    );
    new.lease_until = Some(item.lease.map_or(Timestamp::default(), at));
    new.expiration = Some(at(0) + RETENTION);
    new.owner = (item.owner != Delivery::FOREIGN).then(|| as_owner(item.owner));
    new.fence = item.fence.map(as_fence);
    new
}

/// The item's owner is either the writer or the owner of the item before the write.
pub(super) fn encode(
    config: &Config,
    item: &store::Item,
    writer: Delivery,
    standing: Option<Item>,
) -> Item {
    let completed = item.status == Status::Completed;
    let lease = item.lease_until.filter(|_| !completed);
    let is_writers = item.owner == Some(as_owner(writer));
    Item {
        completed,
        lease: lease.and_then(ticks),
        owner: standing
            .map(|item| item.owner)
            .filter(|_| !is_writers)
            .unwrap_or(writer),
        fence: match config.has_ages() {
            true => item.fence.map(as_mark),
            false => Some(Mark::FIXED),
        },
        young: standing.and_then(|item| item.young),
    }
}

/// A fence tells a tick, or is a count.
pub(super) fn as_mark(fence: Fence) -> Mark {
    let at = Timestamp::from_millis(fence.get());
    let (at, count) = match ticks(at) {
        Some(tick) => (Some(tick), fence.get() % TICK),
        None => (None, fence.get()),
    };
    Mark {
        at,
        count: u16::try_from(count).unwrap_or(u16::MAX),
    }
}

pub(super) fn as_fence(mark: Mark) -> Fence {
    let begins = mark.at.map_or(0, |tick| at(tick).as_millis());
    Fence::from_stored(begins + u64::from(mark.count))
}
