//! The protocol's decisions: pure functions from the store's answers to what happens next.

use std::sync::Arc;

use crate::key::{Fingerprint, Payloads};
use crate::store::{
    Claim, Claimed, Fence, Item, Owner, RELEASED, Seen, Settled, Settlement, Settling, Status,
};
use crate::time::Timestamp;

/// Whether a record's handler may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The claim owns the key: the handler runs.
    Run {
        /// The claim's fence, as the handler receives it.
        fence: Fence,
        /// When the key was first attempted. `None` after an item without a fence, which does not tell.
        first_attempt: Option<Timestamp>,
    },
    /// The handler must not run.
    Refused(Refusal),
}

/// Why a record's handler must not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another worker holds the key. The record must not be acknowledged.
    InProgress {
        /// When the other worker's lease ends, if the item contains that time.
        lease_until: Option<Timestamp>,
    },
    /// The effect has already happened: acknowledge the record without running it.
    Duplicate {
        /// The completion's value.
        data: Option<Arc<str>>,
        /// Whether the payload could be compared: the item has no fingerprint, or one of the same scheme.
        is_compared: bool,
    },
    /// The key was completed for another payload: two events share one key.
    PayloadMismatch {
        /// The fingerprint of that payload.
        completed: Fingerprint,
        /// The completion's value.
        data: Option<Arc<str>>,
    },
    /// An earlier attempt is of unknown outcome, and the key keeps it.
    OutcomeUnknown,
    /// This version does not know the item's status. The key is neither done nor free.
    UnknownStatus(String),
}

/// The warning for a duplicate whose payload was not compared.
pub(crate) const UNCOMPARED: &str = "its key was processed for a payload with other fields, or by a version that \
     compares other fields: the payloads could not be compared";

/// The decision on a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The key is completed: acknowledge.
    Confirmed,
    /// Another attempt took the key over and completed it. The effect may have happened twice: acknowledge.
    ByAnother,
    /// Another attempt took the key over and has not completed it: don't acknowledge.
    LeaseLost,
}

/// Decides on a claim from the store's answer.
pub fn on_claimed(claim: &Claim, claimed: &Claimed) -> Admission {
    match claimed {
        Claimed::Written { fence } => run(claim, claim.seen, *fence),
        Claimed::Refused(item) if is_this_claim(claim, item) => {
            run(claim, claim.seen, item.fence.unwrap_or_default())
        }
        Claimed::Refused(item) => Admission::Refused(refusal(claim.fingerprint.as_ref(), item)),
    }
}

/// Runs with the fence of a claim.
fn run(claim: &Claim, seen: Seen, fence: Fence) -> Admission {
    Admission::Run {
        fence: given(claim, fence),
        first_attempt: match seen {
            Seen::Item(None) => None,
            Seen::Nothing | Seen::Item(Some(_)) | Seen::Expired(_) => fence.first_claim(),
        },
    }
}

/// Returns the fence that a handler receives for the fence of its claim. A count is added to the claim's time, because
/// handlers may have received times for the same key before.
fn given(claim: &Claim, fence: Fence) -> Fence {
    match fence.first_claim() {
        Some(_) => fence,
        None => Fence::from_stored(claim.now.as_millis().saturating_add(fence.get())),
    }
}

/// Returns the claim to send after `item` refused `claim`: it replaces exactly this item. Returns `None` if the key is not
/// free.
pub fn on_refused(claim: &Claim, item: &Item) -> Option<Claim> {
    claim.finds_free(item).then(|| Claim {
        seen: Seen::of(item),
        ..claim.clone()
    })
}

/// Decides on a lookup without a claim.
pub fn on_found(claim: &Claim, found: Option<&Item>) -> Admission {
    match found {
        Some(item) if item.status == Status::Completed && !claim.finds_free(item) => {
            Admission::Refused(refusal(claim.fingerprint.as_ref(), item))
        }
        Some(Item {
            status: Status::Unknown(status),
            ..
        }) => Admission::Refused(Refusal::UnknownStatus(status.clone())),
        _ => {
            let seen = found.map_or(Seen::Nothing, |item| Seen::Item(item.fence));
            let last = found.and_then(|item| item.fence);
            run(
                claim,
                seen,
                last.map_or(Fence::first(claim.now), Fence::next),
            )
        }
    }
}

/// Decides on a claim that was just written and may run, by the item under the key's other id.
///
/// The fence follows on the larger of both, and the first attempt is the earlier of both. No handler has received the
/// fence of an item that the claim created.
pub fn on_found_under_other_id(
    claim: &Claim,
    (fence, since): (Fence, Option<Timestamp>),
    other: &Item,
) -> Admission {
    if !claim.finds_free(other) {
        return Admission::Refused(refusal(claim.fingerprint.as_ref(), other));
    }
    let follows = Fence::after(other.fence);
    // An attempt without a fence is of unknown age, however old.
    let is_over = other.status == Status::Completed || other.fence.is_some();
    if is_over && other.is_expired(claim.now) {
        // As if the table had deleted it, except that fences grow.
        return Admission::Run {
            fence: fence.max(follows),
            first_attempt: since,
        };
    }
    let follows = given(claim, follows);
    Admission::Run {
        fence: match claim.seen {
            Seen::Nothing => follows,
            Seen::Item(_) | Seen::Expired(_) => fence.max(follows),
        },
        first_attempt: since.min(other.fence.and_then(Fence::first_claim)),
    }
}

/// Returns the fence to write for a claim with the fence `claimed` that runs as decided by the item under the key's other
/// id. `None` keeps the claim's own.
///
/// An unknown age stays unknown: the claim's fence is a count already, or becomes one.
pub fn carried_over(
    (claimed, since): (Fence, Option<Timestamp>),
    (fence, first_attempt): (Fence, Option<Timestamp>),
) -> Option<Fence> {
    since?;
    match first_attempt {
        Some(_) => (fence != claimed).then_some(fence),
        None => Some(Fence::after(None)),
    }
}

/// Returns how a claim ends that was just written and that the item under the key's other id refuses. `fingerprint` is the
/// claim's in the form of the other id. A copied completion without an expiry is `kept` until then.
pub fn ends_refused(
    claim: &Claim,
    (claimed, since): (Fence, Option<Timestamp>),
    (refusal, item): (&Refusal, &Item),
    fingerprint: Option<&Fingerprint>,
    kept: Timestamp,
) -> Settling {
    let has_fingerprints = fingerprint.is_some() && item.fingerprint.is_some();
    let follows = match refusal {
        // The age of an attempt without a fence stays unknown.
        Refusal::InProgress { .. } | Refusal::OutcomeUnknown => {
            Some(item.fence.unwrap_or(Fence::after(None)))
        }
        _ => item.fence,
    };
    match (refusal, follows) {
        // Copies a completion with its expiry, so that the next duplicate needs no second read. The copy keeps the
        // claim's fingerprint, so the payloads must be the same.
        (Refusal::Duplicate { data, is_compared }, _)
            if claim.fingerprint.is_none() || (*is_compared && has_fingerprints) =>
        {
            Settling::Complete {
                expiration: item.expiration.unwrap_or(kept),
                data: data.clone(),
            }
        }
        // A fence of now would make the key's first attempt look later than it was.
        (_, Some(follows)) if claim.seen == Seen::Nothing && since.is_some() => {
            Settling::carry_over(RELEASED, claimed, follows)
        }
        _ => Settling::Release,
    }
}

/// Returns the claim that takes the item of a key's other id from an owner whose lease has lapsed, and whose attempt is of
/// unknown outcome. It is released from the start: the key is claimed under its own id, and the old owner can no longer
/// complete it.
pub fn takes_over(claim: &Claim, owner: Owner, other: &Item) -> Option<Claim> {
    let is_lapsed = other.status == Status::InProgress
        && other.lease_until.is_some_and(|until| until != RELEASED)
        && other.owner.is_some()
        && claim.finds_free(other);
    is_lapsed.then(|| Claim {
        id: other.id.clone(),
        owner,
        lease_until: RELEASED,
        fingerprint: other.fingerprint.clone(),
        seen: Seen::Item(other.fence),
        ..claim.clone()
    })
}

/// Decides on a completion from the store's answer.
pub fn on_completed(settlement: &Settlement, settled: &Settled) -> Completed {
    // Without a claim, another owner's completion is no takeover.
    let is_claimed = matches!(settlement.settling, Settling::Complete { .. });
    match settled {
        Settled::Written => Completed::Confirmed,
        Settled::Refused(Some(item)) if item.status == Status::Completed => {
            match is_claimed && item.owner != Some(settlement.owner) {
                true => Completed::ByAnother,
                false => Completed::Confirmed,
            }
        }
        Settled::Refused(_) => Completed::LeaseLost,
    }
}

/// Decides how a commit of an effect together with the completion of its key ended. `refused_by` is the item that refused
/// it, or `None` if the commit was written.
///
/// # Errors
/// Nothing was committed, because of the existing item.
pub fn on_committed(
    owner: Owner,
    fingerprint: Option<&Fingerprint>,
    refused_by: Option<&Item>,
) -> Result<(), Refusal> {
    match refused_by {
        None => Ok(()),
        // The first answer was lost, and the commit was sent again.
        Some(item) if item.status == Status::Completed && item.owner == Some(owner) => Ok(()),
        Some(item) => Err(refusal(fingerprint, item)),
    }
}

/// Returns whether this claim wrote the item that refuses it, so that only the answer was lost. A released claim does
/// not count.
fn is_this_claim(claim: &Claim, item: &Item) -> bool {
    item.status == Status::InProgress
        && item.owner == Some(claim.owner)
        && item.lease_until == Some(claim.lease_until)
}

fn refusal(fingerprint: Option<&Fingerprint>, item: &Item) -> Refusal {
    match &item.status {
        Status::InProgress => Refusal::InProgress {
            lease_until: item.lease_until,
        },
        Status::Completed => {
            let data = item.data.clone();
            match (
                Fingerprint::compare(fingerprint, item.fingerprint.as_ref()),
                &item.fingerprint,
            ) {
                (Payloads::Different, Some(completed)) => Refusal::PayloadMismatch {
                    completed: completed.clone(),
                    data,
                },
                (payloads, _) => Refusal::Duplicate {
                    data,
                    is_compared: payloads == Payloads::Same,
                },
            }
        }
        Status::Unknown(status) => Refusal::UnknownStatus(status.clone()),
    }
}
