//! Applies the library's protocol decisions to the model's small items. Only this module overrides them for mutants.

use std::time::Duration;

use sqs_once::idempotency::{
    Admission, Completion, Refusal, on_claimed, on_committed, on_completed, on_found, on_refused,
};
use sqs_once::key::ItemId;
use sqs_once::store::{
    self, Claimed, Fence, Owner, Recording, Settled, Settlement, Settling, Status,
};
use sqs_once::time::Timestamp;
use sqs_once_operate::Change;

use super::config::Config;
use super::state::{Delivery, Item, Saw};
use crate::simulation::Mutant;

/// The time of tick 0. A released lease is the epoch, which is far earlier.
const NOW: u64 = 1_000_000;
/// Longer than any message in the model lives.
const RETENTION: Duration = Duration::from_secs(1_000_000);
/// The fence of every item. The model only checks whether the next fence is larger.
const FENCE: u64 = 7;

/// What an answer means for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Run,
    /// The key is free; the worker claims it again, over the item in the refusal.
    Again,
    /// The effect happened, now or before.
    Done,
    /// Another worker holds the key until this tick.
    Busy(Option<i8>),
    /// The record failed, without a lease to wait for.
    Failed,
}

/// The result of a conditional write, and what its answer means to the sender.
pub(super) struct Written {
    pub(super) item: Option<Item>,
    pub(super) written: bool,
    /// Whether a claim was written that did not raise the fence.
    pub(super) fence_stood: bool,
    pub(super) verdict: Verdict,
}

/// A claim by `owner` at `now`, with a lease until `lease`, on the item `standing`. Without `seen` the claim runs in a
/// transaction that locks the key, so it has seen the current item.
pub(super) fn claim(
    config: &Config,
    (owner, now, lease): (Delivery, i8, i8),
    seen: Option<Saw>,
    standing: Option<Item>,
) -> Written {
    let existing = standing.map(decode);
    let mut claim = as_claim(owner, now, lease);
    claim.seen = match seen.unwrap_or(Saw::Current) {
        Saw::Nothing => store::Seen::Nothing,
        Saw::Current => store::Seen::Item(Some(Fence::from_stored(FENCE))),
        Saw::Stale => store::Seen::Item(Some(Fence::from_stored(FENCE - 1))),
    };
    let without = |item| config.mutant?.admits_claim(&claim, item);
    let admitted = existing.as_ref().and_then(without);
    let admitted = admitted.unwrap_or_else(|| claim.admitted_by(existing.as_ref()));
    if let Some(refused_by) = existing.as_ref().filter(|_| !admitted) {
        let is_own_copy = is_held_by(refused_by, owner);
        let answer = match config.has(Mutant::NoSelfRecognition) && is_own_copy {
            true => Admission::Refused(Refusal::InProgress {
                lease_until: refused_by.lease_until,
            }),
            false => on_claimed(&claim, &Claimed::Refused(Box::new(refused_by.clone()))),
        };
        let is_free = on_refused(&claim, refused_by).is_some();
        return Written {
            item: standing,
            written: false,
            fence_stood: false,
            verdict: match is_free {
                true => Verdict::Again,
                false => admission(answer),
            },
        };
    }
    let mut item = claim.write(existing.as_ref());
    if config.has(Mutant::FenceStays) && existing.is_some() {
        item.fence = Some(Fence::from_stored(FENCE));
    }
    let fence = item.fence.unwrap_or_default();
    Written {
        item: Some(encode(&item, owner, standing)),
        written: true,
        fence_stood: existing.and_then(|item| item.fence) >= Some(fence),
        verdict: admission(on_claimed(&claim, &Claimed::Written { fence })),
    }
}

pub(super) fn found((owner, now): (Delivery, i8), standing: Option<Item>) -> Verdict {
    let existing = standing.map(decode);
    admission(on_found(&as_claim(owner, now, now), existing.as_ref()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    Release,
    Renew(i8),
    Record(i8),
    Commit(i8),
}

pub(super) fn settle(
    config: &Config,
    owner: Delivery,
    ending: Ending,
    standing: Option<Item>,
) -> Written {
    let existing = standing.map(decode);
    let recording = |now| Recording::new(at(now), at(now) + RETENTION);
    let settlement = Settlement::new(
        id(),
        as_owner(owner),
        match ending {
            Ending::Complete => Settling::complete(at(0) + RETENTION, None),
            Ending::Release => Settling::Release,
            Ending::Renew(lease) => Settling::renew(at(lease)),
            Ending::Record(now) => Settling::Record(recording(now)),
            Ending::Commit(now) => Settling::Commit(recording(now)),
        },
    );
    let without = |mutant: Mutant| mutant.admits_settlement(&settlement, existing.as_ref());
    let admitted = config.mutant.and_then(without);
    let admitted = admitted.unwrap_or_else(|| settlement.admitted_by(existing.as_ref()));
    let deletes = config.mutant.is_some_and(Mutant::deletes_released);
    let item = match admitted {
        true if ending == Ending::Release && deletes => None,
        true => Some(encode(
            &settlement.write(existing.as_ref()),
            owner,
            standing,
        )),
        false => standing,
    };
    let verdict = match ending {
        Ending::Commit(_) => {
            let refused_by = existing.as_ref().filter(|_| !admitted);
            match on_committed(as_owner(owner), None, refused_by) {
                Ok(()) => Verdict::Done,
                Err(refused) => refusal(refused),
            }
        }
        Ending::Renew(_) => match admitted {
            true => Verdict::Run,
            false => Verdict::Failed,
        },
        _ => {
            let settled = match admitted {
                true => Settled::Written,
                false => Settled::Refused(existing.map(Box::new)),
            };
            match on_completed(&settlement, &settled) {
                Completion::Recorded | Completion::RecordedByAnother => Verdict::Done,
                Completion::LeaseLost => Verdict::Failed,
            }
        }
    };
    Written {
        item,
        written: admitted,
        fence_stood: false,
        verdict,
    }
}

/// The item that an operator's `key forget` writes over `standing`, and whether its fence is larger.
pub(super) fn forget(config: &Config, standing: Option<Item>) -> (Option<Item>, bool) {
    let existing = standing.map(decode);
    let operator = Delivery::OPERATOR;
    let item = Change::Forget.write(&id(), existing.as_ref(), as_owner(operator), at(0));
    let (Some(existing), Some(mut item)) = (existing, item) else {
        return (standing, false);
    };
    match config.mutant {
        Some(Mutant::ForgetDeletes) => return (None, true),
        Some(Mutant::ForgetKeepsFence) => item.fence = existing.fence,
        Some(Mutant::ForgetKeepsOwner) => item.owner = existing.owner,
        _ => {}
    }
    let grows = item.fence > existing.fence;
    (Some(encode(&item, operator, standing)), grows)
}

fn admission(admission: Admission) -> Verdict {
    match admission {
        Admission::Run { .. } => Verdict::Run,
        Admission::Refused(refused) => refusal(refused),
    }
}

fn refusal(refusal: Refusal) -> Verdict {
    match refusal {
        Refusal::Duplicate { .. } => Verdict::Done,
        Refusal::InProgress { lease_until } => Verdict::Busy(lease_until.and_then(ticks)),
        Refusal::PayloadMismatch | Refusal::UnknownStatus(_) => Verdict::Failed,
    }
}

fn is_held_by(item: &store::Item, owner: Delivery) -> bool {
    item.status == Status::InProgress && item.owner == Some(as_owner(owner))
}

fn as_claim(owner: Delivery, now: i8, lease: i8) -> store::Claim {
    store::Claim::new(
        id(),
        as_owner(owner),
        at(now),
        at(lease),
        at(now) + RETENTION,
    )
}

fn as_owner(delivery: Delivery) -> Owner {
    Owner::from_bits(u128::from(delivery.message) * 256 + u128::from(delivery.receive))
}

/// Each decision concerns one key, so all keys can share one id.
fn id() -> ItemId {
    thread_local!(static ID: ItemId = ItemId::from_stored("model#key"));
    ID.with(Clone::clone)
}

fn at(tick: i8) -> Timestamp {
    Timestamp::from_secs(NOW.saturating_add_signed(i64::from(tick)))
}

/// `None` for the epoch, which is the lease of a released claim.
fn ticks(at: Timestamp) -> Option<i8> {
    let tick = i128::from(at.as_secs()) - i128::from(NOW);
    i8::try_from(tick).ok()
}

fn decode(item: Item) -> store::Item {
    let mut new = store::Item::new(
        id(),
        match item.completed {
            true => Status::Completed,
            false => Status::InProgress,
        },
    );
    new.lease_until = Some(item.lease.map_or(Timestamp::default(), at));
    new.expiration = Some(at(0) + RETENTION);
    new.owner = Some(as_owner(item.owner));
    new.fence = Some(Fence::from_stored(FENCE));
    new
}

/// The item's owner is either the writer or the owner of the item before the write.
fn encode(item: &store::Item, writer: Delivery, standing: Option<Item>) -> Item {
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
    }
}
