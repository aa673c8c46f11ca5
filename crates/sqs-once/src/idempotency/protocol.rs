//! The protocol's decisions: plain functions from what the store answered to what happens next.

use std::sync::Arc;

use crate::key::Fingerprint;
use crate::store::{Claim, Claimed, Fence, Item, Owner, Seen, Settled, Status};
use crate::time::Timestamp;

/// Chooses when a record's effect is recorded, and so what is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Claim the key, run the handler, record completion (the default).
    ///
    /// At least once, deduplicated: no two live workers ever run one key at once. The effect repeats only if the attempt
    /// dies between the effect and its record: the process is killed, the handler is cancelled or fails after the effect,
    /// or the completion gets no answer. Pass the [`IdempotencyToken`](crate::IdempotencyToken) on to close that window.
    ///
    /// For a handler that returns [`Writes`](crate::Writes) it is effectively once, as in
    /// [`Transactional`](Mode::Transactional): completion and writes commit together. For one more write, the claim
    /// ensures that the handler runs for one delivery at a time.
    #[default]
    ClaimFirst,
    /// Look the key up, run the handler, record completion: no claim.
    ///
    /// At least once, deduplicated only against recorded completions: two concurrent deliveries may both run. It is for
    /// handlers that are idempotent by themselves and should never wait for a lease. It costs one write for a record
    /// instead of two.
    RecordAfter,
    /// Run the handler, and commit its effect together with the record of its key. This is the default for handlers that
    /// return [`Writes`](crate::Writes) or take a transaction of their store, and no other handler can have it.
    ///
    /// Effectively once: the effect and its record both commit, or neither does, whichever process dies at whatever moment.
    ///
    /// Concurrent deliveries to a handler that takes a transaction wait for each other, because the transaction claims the
    /// key. Concurrent deliveries to a handler that returns `Writes` may both run, but only one commits. If both must not
    /// run, [`ClaimFirst`](Mode::ClaimFirst) claims the key first.
    Transactional,
}

/// Whether a record's handler may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The key is ours: run it.
    Run {
        /// The claim's fence.
        fence: Fence,
    },
    /// Not ours to run.
    Refused(Refusal),
}

/// Why a record's handler must not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another worker holds the key. The record must not be acknowledged.
    InProgress {
        /// When the other's lease ends, where the item says so.
        lease_until: Option<Timestamp>,
    },
    /// The effect happened already: acknowledge, without an effect.
    Duplicate {
        /// What the handler recorded then.
        data: Option<Arc<str>>,
    },
    /// The key is completed for a message that said something else: two events share one key.
    PayloadMismatch,
    /// This version does not know the item's status. The key is neither done nor free.
    UnknownStatus(String),
}

/// Whether a completed effect is on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It is recorded, by this attempt or another: acknowledge.
    Recorded,
    /// The claim was lost to another attempt that has not completed: don't acknowledge.
    LeaseLost,
}

/// Whether an effect is committed together with the record of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commitment {
    /// It is, by this attempt: acknowledge.
    Recorded,
    /// It is not, because of the existing item.
    Refused(Refusal),
}

/// What a claim came to.
pub fn on_claimed(claim: &Claim, claimed: &Claimed) -> Admission {
    match claimed {
        Claimed::Written { fence } => Admission::Run { fence: *fence },
        Claimed::Refused(item) if is_this_claim(claim, item) => Admission::Run {
            fence: item.fence.unwrap_or_default(),
        },
        Claimed::Refused(item) => Admission::Refused(refusal(claim.fingerprint.as_ref(), item)),
    }
}

/// The claim to send instead of one that `item` refused: the key is free, and the claim takes the place of this very item.
/// `None` where the item refuses every claim.
pub fn on_refused(claim: &Claim, item: &Item) -> Option<Claim> {
    claim.finds_free(item).then(|| Claim {
        seen: Seen::Item(item.fence),
        ..claim.clone()
    })
}

/// What looking a key up came to, in the mode [`Mode::RecordAfter`].
pub fn on_found(claim: &Claim, found: Option<&Item>) -> Admission {
    match found {
        Some(item) if item.status == Status::Completed && !claim.finds_free(item) => {
            Admission::Refused(refusal(claim.fingerprint.as_ref(), item))
        }
        Some(Item {
            status: Status::Unknown(status),
            ..
        }) => Admission::Refused(Refusal::UnknownStatus(status.clone())),
        _ => Admission::Run {
            fence: found
                .and_then(|item| item.fence)
                .map_or(Fence::first(claim.now), Fence::next),
        },
    }
}

/// Why a key that was just claimed must not run: the item under its other id, if that would refuse the claim.
pub fn on_found_under_other_id(claim: &Claim, item: &Item) -> Option<Refusal> {
    (!claim.finds_free(item)).then(|| refusal(claim.fingerprint.as_ref(), item))
}

/// What a completion came to.
pub fn on_completed(settled: &Settled) -> Completion {
    match settled {
        Settled::Written => Completion::Recorded,
        Settled::Refused(Some(item)) if item.status == Status::Completed => Completion::Recorded,
        Settled::Refused(_) => Completion::LeaseLost,
    }
}

/// What the commit of an attempt came to: written, or refused by an item.
pub fn on_committed(
    owner: Owner,
    fingerprint: Option<&Fingerprint>,
    refused_by: Option<&Item>,
) -> Commitment {
    match refused_by {
        None => Commitment::Recorded,
        // Its answer was lost and it was sent again.
        Some(item) if item.status == Status::Completed && item.owner == Some(owner) => {
            Commitment::Recorded
        }
        Some(item) => Commitment::Refused(refusal(fingerprint, item)),
    }
}

/// Whether the item that refuses a claim is the claim's own, written before its answer was lost. A released claim is over.
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
        Status::Completed => match (fingerprint, &item.fingerprint) {
            (Some(mine), Some(theirs)) if mine != theirs => Refusal::PayloadMismatch,
            _ => Refusal::Duplicate {
                data: item.data.clone(),
            },
        },
        Status::Unknown(status) => Refusal::UnknownStatus(status.clone()),
    }
}
