//! Applies the library's protocol decisions to the model's small items. Only this module overrides them for mutants.

mod items;
mod other_id;

use sqs_once::store::{
    self, Claimed, Fence, Settled, Settlement, Settling, Status, Timestamp, UnclaimedCompletion,
};
use sqs_once::unstable::{
    Admission, Completed, Refusal, on_claimed, on_committed, on_completed, on_found, on_refused,
};
use sqs_once_operate::Change;

use super::config::Config;
use super::fence::{Mark, Run, Young};
use super::request::Saw;
use super::state::{Delivery, Item};
use crate::simulation::Mutant;
use items::{RETENTION, as_fence, as_mark, as_owner, at, decode, encode, id, ticks};
pub(super) use other_id::{Looked, looked, taken};

/// What an answer means for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Run(Run),
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
    claim.seen = as_seen(seen.unwrap_or(Saw::Current), existing.as_ref());
    let admitted = admits(config, &claim, existing.as_ref());
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
                false => admission(&claim, answer),
            },
        };
    }
    let mut item = claim.write(existing.as_ref());
    let last = existing.and_then(|item| item.fence);
    if config.has(Mutant::FenceStays) && standing.is_some() {
        item.fence = last;
    }
    if config.has(Mutant::UnknownAgeIsNow) && last.is_none() {
        item.fence = Some(Fence::first(claim.now));
        claim.seen = store::Seen::Nothing;
    }
    let fence = item.fence.unwrap_or_default();
    let mut written = encode(config, &item, owner, standing);
    // Without the other id, nothing tells another age.
    let is_new = standing.is_none() && config.has_two_ids();
    let young = written.young.map(|young| young.since);
    // From now on, its owner may carry another age over.
    written.young = young.or(is_new.then_some(now)).map(|since| Young {
        since,
        is_forgotten: false,
    });
    Written {
        item: Some(written),
        written: true,
        fence_stood: last >= Some(fence),
        verdict: admission(&claim, on_claimed(&claim, &Claimed::Written { fence })),
    }
}

/// Converts what the sender of a claim has seen, if the claim now finds `existing`.
fn as_seen(saw: Saw, existing: Option<&store::Item>) -> store::Seen {
    let fence = existing.and_then(|item| item.fence);
    match saw {
        Saw::Nothing => store::Seen::Nothing,
        Saw::Current => store::Seen::Item(fence),
        Saw::Stale => {
            let earlier = fence.unwrap_or_default().get().saturating_sub(1);
            store::Seen::Item(Some(Fence::from_stored(earlier)))
        }
    }
}

fn admits(config: &Config, claim: &store::Claim, existing: Option<&store::Item>) -> bool {
    let without = |item| config.mutant?.admits_claim(claim, item);
    let admitted = existing.and_then(without);
    admitted.unwrap_or_else(|| claim.admitted_by(existing))
}

pub(super) fn found((owner, now): (Delivery, i8), standing: Option<Item>) -> Verdict {
    let existing = standing.map(decode);
    let claim = as_claim(owner, now, now);
    admission(&claim, on_found(&claim, existing.as_ref()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ending {
    Complete,
    /// Completes it as the other id is completed.
    Copy,
    Release,
    Renew(i8),
    /// Without a lease, it releases the claim.
    CarryOver {
        lease: Option<i8>,
        claimed: Mark,
        follows: Mark,
    },
    Record(i8),
    Commit(i8),
}

impl Ending {
    /// The time that its request contains.
    pub(super) fn time(&mut self) -> Option<&mut i8> {
        match self {
            Self::Renew(time) | Self::Record(time) | Self::Commit(time) => Some(time),
            Self::CarryOver { lease, .. } => lease.as_mut(),
            Self::Complete | Self::Copy | Self::Release => None,
        }
    }
}

pub(super) fn settle(
    config: &Config,
    owner: Delivery,
    ending: Ending,
    standing: Option<Item>,
) -> Written {
    let existing = standing.map(decode);
    let recording = |now| UnclaimedCompletion::new(at(now), at(now) + RETENTION);
    let settlement = Settlement::new(
        id(),
        as_owner(owner),
        match ending {
            Ending::Complete | Ending::Copy => Settling::complete(at(0) + RETENTION, None),
            Ending::Release => Settling::Release,
            Ending::Renew(lease) => Settling::renew(at(lease)),
            Ending::CarryOver {
                lease,
                claimed,
                follows,
            } => {
                let lease = lease.map_or(Timestamp::default(), at);
                Settling::carry_over(lease, as_fence(claimed), as_fence(follows))
            }
            Ending::Record(now) => Settling::CompleteUnclaimed(recording(now)),
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
            config,
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
        Ending::Renew(_) | Ending::CarryOver { .. } => match admitted {
            true => Verdict::Run(Run::default()),
            false => Verdict::Failed,
        },
        _ => {
            let settled = match admitted {
                true => Settled::Written,
                false => Settled::Refused(existing.map(Box::new)),
            };
            match on_completed(&settlement, &settled) {
                Completed::Confirmed | Completed::ByAnother => Verdict::Done,
                Completed::LeaseLost => Verdict::Failed,
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
        Some(Mutant::ForgetKeepsAge) => item.fence = existing.fence.map(Fence::next),
        _ => {}
    }
    let grows = item.fence > existing.fence;
    (Some(encode(config, &item, operator, standing)), grows)
}

fn admission(claim: &store::Claim, admission: Admission) -> Verdict {
    match admission {
        Admission::Run {
            fence,
            first_attempt,
        } => Verdict::Run(Run {
            now: ticks(claim.now).unwrap_or_default(),
            fence: as_mark(fence),
            first: first_attempt.map(|first| as_mark(Fence::first(first))),
            over: claim.seen != store::Seen::Nothing,
        }),
        Admission::Refused(refused) => refusal(refused),
    }
}

fn refusal(refusal: Refusal) -> Verdict {
    match refusal {
        Refusal::Duplicate { .. } => Verdict::Done,
        Refusal::InProgress { lease_until } => Verdict::Busy(lease_until.and_then(ticks)),
        Refusal::PayloadMismatch { .. } | Refusal::OutcomeUnknown | Refusal::UnknownStatus(_) => {
            Verdict::Failed
        }
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
