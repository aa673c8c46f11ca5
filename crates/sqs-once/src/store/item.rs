//! The item of a business key, and the conditions for writing it.
//!
//! These conditions are the reference: the conditions of every store must decide the same.

use std::fmt;
use std::sync::Arc;

use crate::key::{Fingerprint, ItemId};
use crate::time::Timestamp;

/// The identity of one attempt: a random number of 128 bits, or one of its next successors. It is new for every claim.
/// Only the owner of a claim may complete or release it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

impl Owner {
    /// Creates an owner from random bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Reads an owner as stored in the table. Returns `None` unless it has 32 hexadecimal digits.
    pub fn from_stored(hex: &str) -> Option<Self> {
        // `from_str_radix` accepts a sign.
        let is_valid = hex.len() == 32 && !hex.starts_with('+');
        let bits = u128::from_str_radix(hex, 16).ok()?;
        is_valid.then_some(Self(bits))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// A fencing token: every claim of a key has a larger one than the previous claim.
///
/// A key's first fence is the time of its claim in milliseconds, so that fences keep growing after an expired item is
/// deleted.
///
/// Claims over an item without a fence count from 1, because the item does not tell when its key was first attempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

/// Larger than any count of claims, and smaller than any time that a clock shows.
const FIRST_TIME: u64 = 1_000_000;

impl Fence {
    /// Reads a fence as stored in the table.
    pub const fn from_stored(fence: u64) -> Self {
        Self(fence)
    }

    /// Returns the fence of a key's first claim.
    pub const fn first(now: Timestamp) -> Self {
        Self(now.as_millis())
    }

    /// Returns the fence of a claim over an item with this fence, or with none.
    pub(crate) fn after(last: Option<Self>) -> Self {
        last.unwrap_or_default().next()
    }

    /// Returns the time of the key's first claim. `None` if this fence is a count of claims.
    pub(crate) fn first_claim(self) -> Option<Timestamp> {
        (self.0 >= FIRST_TIME).then(|| Timestamp::from_millis(self.0))
    }

    /// Returns the next fence.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the fence as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// A worker claimed the key. It is still working, or its lease lapsed.
    InProgress,
    /// The effect is done, and the key is completed.
    Completed,
    /// A status that no version of the protocol writes. No worker may claim the key.
    Unknown(String),
}

/// A store's item for one key. Items written by Powertools for AWS Lambda have neither owner nor fence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The partition key.
    pub id: ItemId,
    /// The state of the key.
    pub status: Status,
    /// When the owner's lease lapses.
    pub lease_until: Option<Timestamp>,
    /// Until when duplicates are recognised, in whole seconds. The store may delete the item later.
    pub expiration: Option<Timestamp>,
    /// The payload's fingerprint.
    pub fingerprint: Option<Fingerprint>,
    /// The completion's value, if the handler returned one.
    pub data: Option<Arc<str>>,
    /// The owner of the claim or completion.
    pub owner: Option<Owner>,
    /// The fence of the last claim.
    pub fence: Option<Fence>,
}

impl Item {
    /// Creates an item without further attributes. Assign the others afterwards.
    pub fn new(id: ItemId, status: Status) -> Self {
        Self {
            id,
            status,
            lease_until: None,
            expiration: None,
            fingerprint: None,
            data: None,
            owner: None,
            fence: None,
        }
    }

    /// Returns whether the item of a free key is a claim that was never settled: its handler may have had its effect.
    pub(crate) fn is_of_unknown_outcome(&self) -> bool {
        self.status == Status::InProgress && self.lease_until != Some(RELEASED)
    }

    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expiration
            .is_some_and(|expiration| expiration.as_secs() < now.as_secs())
    }
}

/// The item that the sender of a claim saw. The claim replaces it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Seen {
    /// The sender saw no item.
    #[default]
    Nothing,
    /// The sender saw a claim with this fence that is free. Items of Powertools for AWS Lambda have none.
    Item(Option<Fence>),
    /// The sender saw a completion with this fence that has expired. The attempts at its key begin again.
    Expired(Option<Fence>),
}

impl Seen {
    /// Returns what the sender of a claim saw.
    pub(crate) fn of(item: &Item) -> Self {
        match item.status {
            Status::Completed => Self::Expired(item.fence),
            Status::InProgress | Status::Unknown(_) => Self::Item(item.fence),
        }
    }

    /// Returns whether a claim may replace an item with this fence.
    fn replaces(self, fence: Option<Fence>) -> bool {
        match self {
            Self::Nothing => false,
            Self::Item(seen) | Self::Expired(seen) => seen == fence,
        }
    }

    /// Returns whether an attempt under this claim is the first since the key was free.
    pub(crate) fn is_first(self) -> bool {
        matches!(self, Self::Nothing | Self::Expired(_))
    }
}

/// A request to own a key until the lease lapses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The item id of the key.
    pub id: ItemId,
    /// The identity of the claiming attempt.
    pub owner: Owner,
    /// The time of the claim.
    pub now: Timestamp,
    /// When the lease lapses.
    pub lease_until: Timestamp,
    /// When the item may be deleted if the claim is never settled. Stored rounded up to the second.
    pub expiration: Timestamp,
    /// The payload's fingerprint, if it is checked.
    pub fingerprint: Option<Fingerprint>,
    /// The item that the claim replaces.
    pub seen: Seen,
}

impl Claim {
    /// Creates a claim without a fingerprint, for a key whose item the claimant has not seen.
    pub fn new(
        id: ItemId,
        owner: Owner,
        now: Timestamp,
        lease_until: Timestamp,
        expiration: Timestamp,
    ) -> Self {
        Self {
            id,
            owner,
            now,
            lease_until,
            expiration,
            fingerprint: None,
            seen: Seen::Nothing,
        }
    }

    /// Returns whether this claim may be written over `existing`: there is no item, or it is the item that the sender
    /// saw and is still free.
    ///
    /// Every claim raises the fence, so a late second copy of a claim changes nothing. A completion does not raise the
    /// fence, so the item must also still be [free](Self::finds_free).
    pub fn admitted_by(&self, existing: Option<&Item>) -> bool {
        existing.is_none_or(|item| self.seen.replaces(item.fence) && self.finds_free(item))
    }

    /// Returns whether `item` is free: an expired completion, or another owner's claim whose lease lapsed.
    pub fn finds_free(&self, item: &Item) -> bool {
        match (&item.status, item.lease_until) {
            (Status::Completed, _) => item.is_expired(self.now),
            (Status::InProgress, Some(lease_until)) => {
                lease_until < self.now && item.owner != Some(self.owner)
            }
            // Powertools writes no lease when it knows no deadline.
            (Status::InProgress, None) => item.is_expired(self.now),
            (Status::Unknown(_), _) => false,
        }
    }

    /// Returns the item that replaces `existing` after this claim.
    pub fn write(&self, existing: Option<&Item>) -> Item {
        let mut item = Item::new(self.id.clone(), Status::InProgress);
        item.lease_until = Some(self.lease_until);
        item.expiration = Some(whole_secs(self.expiration));
        item.fingerprint.clone_from(&self.fingerprint);
        item.owner = Some(self.owner);
        let first = Fence::first(self.now);
        item.fence = Some(match (existing, self.seen) {
            (None, _) => first,
            // It tells the time of the first attempt since then.
            (Some(item), Seen::Expired(_)) => Fence::after(item.fence).max(first),
            (Some(item), _) => Fence::after(item.fence),
        });
        item
    }
}

/// The end of a claim, a longer lease for it, or the completion of a key that may not have been claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// The item id of the key.
    pub id: ItemId,
    /// The owner of the claim.
    pub owner: Owner,
    /// The change to the item.
    pub settling: Settling,
}

/// The change that a settlement makes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settling {
    /// The effect happened.
    #[non_exhaustive]
    Complete {
        /// Until when duplicates are recognised. Stored rounded up to the second.
        expiration: Timestamp,
        /// The completion's value, if the handler returned one.
        data: Option<Arc<str>>,
    },
    /// The attempt failed, and the next one need not wait for the lease. The item stays, so that its fence keeps
    /// growing and a late copy of the claim finds it.
    Release,
    /// The claim has a new lease. A late copy neither shortens a lease, nor brings a released claim back, nor lowers a
    /// fence that was carried over later.
    #[non_exhaustive]
    Renew {
        /// When the lease lapses now, at most the item's expiration. Zero releases the claim.
        lease_until: Timestamp,
        /// The fence from now on. `None` keeps it.
        fence: Option<CarryOver>,
    },
    /// The effect happened without an earlier claim.
    CompleteUnclaimed(UnclaimedCompletion),
    /// The effect commits together with this settlement, or not at all.
    Commit(UnclaimedCompletion),
}

/// The fence that a claim takes over from its key's other id, before any handler has received one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarryOver {
    /// The fence that the claim wrote.
    pub claimed: Fence,
    /// The fence that follows on the other id's.
    pub follows: Fence,
}

impl CarryOver {
    /// Returns whether it may replace `fence`: the claim's own, or none that a later carry-over wrote.
    fn replaces(self, fence: Option<Fence>) -> bool {
        fence.is_some_and(|fence| fence == self.claimed || fence <= self.follows)
    }
}

/// The completion of a key that may not have been claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnclaimedCompletion {
    /// The time of the completion.
    pub now: Timestamp,
    /// Until when duplicates are recognised. Stored rounded up to the second.
    pub expiration: Timestamp,
    /// The payload's fingerprint, if it is checked.
    pub fingerprint: Option<Fingerprint>,
    /// The completion's value, if the handler returned one.
    pub data: Option<Arc<str>>,
}

impl UnclaimedCompletion {
    /// Creates a completion at `now` without a fingerprint and a value. Duplicates are recognised until `expiration`.
    pub fn new(now: Timestamp, expiration: Timestamp) -> Self {
        Self {
            now,
            expiration,
            fingerprint: None,
            data: None,
        }
    }
}

impl Settling {
    /// Creates the completion of a claim.
    pub fn complete(expiration: Timestamp, data: Option<Arc<str>>) -> Self {
        Self::Complete { expiration, data }
    }

    /// Creates the renewal of a claim whose code still runs.
    pub fn renew(lease_until: Timestamp) -> Self {
        let fence = None;
        Self::Renew { lease_until, fence }
    }

    /// Gives a claim that was just written with the fence `claimed` the one that follows on its key's other id. A lease of
    /// zero releases it.
    pub fn carry_over(lease_until: Timestamp, claimed: Fence, follows: Fence) -> Self {
        Self::Renew {
            lease_until,
            fence: Some(CarryOver { claimed, follows }),
        }
    }
}

impl Settlement {
    /// Creates a settlement by `owner` for one key.
    pub fn new(id: ItemId, owner: Owner, settling: Settling) -> Self {
        Self {
            id,
            owner,
            settling,
        }
    }

    /// Returns whether this settlement may be written over `existing`.
    ///
    /// - A completion needs an item with its owner: the claim, or the same completion.
    /// - A release needs an item with its owner that is still in progress.
    /// - A renewal needs the same. The item must not be released, nor have a longer lease, unless the renewal releases it.
    ///   A carried-over fence replaces only the claim's own fence, or one that is not larger.
    /// - An unclaimed completion needs no item, an item in progress, or an expired completion.
    /// - A commit needs its own claim, still in progress, or a key that it could claim. Any completion that has not
    ///   expired refuses it, even its own: the effect would happen again.
    pub fn admitted_by(&self, existing: Option<&Item>) -> bool {
        let mine = |item: &Item| item.owner == Some(self.owner);
        match (&self.settling, existing) {
            (Settling::Complete { .. }, Some(item)) => mine(item),
            (Settling::Release, Some(item)) => mine(item) && item.status == Status::InProgress,
            (Settling::Renew { lease_until, fence }, Some(item)) => {
                let is_held = |until| RELEASED < until && until <= longest_lease(*lease_until);
                mine(item)
                    && item.status == Status::InProgress
                    && item.lease_until.is_some_and(is_held)
                    && fence.is_none_or(|it| it.replaces(item.fence))
            }
            (Settling::Complete { .. } | Settling::Release | Settling::Renew { .. }, None) => false,
            (Settling::CompleteUnclaimed(recording), Some(item)) => match item.status {
                Status::Completed => item.is_expired(recording.now),
                Status::InProgress => true,
                Status::Unknown(_) => false,
            },
            (Settling::Commit(recording), Some(item)) => match (&item.status, item.lease_until) {
                (Status::Completed, _) => item.is_expired(recording.now),
                (Status::InProgress, _) if mine(item) => true,
                (Status::InProgress, Some(lease_until)) => lease_until < recording.now,
                (Status::InProgress, None) => item.is_expired(recording.now),
                (Status::Unknown(_), _) => false,
            },
            (Settling::CompleteUnclaimed(_) | Settling::Commit(_), None) => true,
        }
    }

    /// Returns the item that replaces `existing` after this settlement.
    pub fn write(&self, existing: Option<&Item>) -> Item {
        let mut item = existing.cloned().unwrap_or_else(|| {
            let mut item = Item::new(self.id.clone(), Status::InProgress);
            item.owner = Some(self.owner);
            item
        });
        match &self.settling {
            Settling::Complete { expiration, data } => {
                item.status = Status::Completed;
                item.expiration = Some(whole_secs(*expiration));
                // The claim already cleared earlier data.
                if data.is_some() {
                    item.data.clone_from(data);
                }
            }
            Settling::Release => item.lease_until = Some(RELEASED),
            Settling::Renew { lease_until, fence } => {
                item.lease_until = Some(*lease_until);
                item.fence = fence.map(|it| it.follows).or(item.fence);
            }
            Settling::CompleteUnclaimed(recording) | Settling::Commit(recording) => {
                item.status = Status::Completed;
                item.owner = Some(self.owner);
                item.expiration = Some(whole_secs(recording.expiration));
                item.fingerprint.clone_from(&recording.fingerprint);
                item.data.clone_from(&recording.data);
                item.fence = Some(item.fence.map_or(Fence::first(recording.now), Fence::next));
            }
        }
        item
    }
}

/// The longest lease of an item that a renewal may replace.
pub(super) fn longest_lease(renewed: Timestamp) -> Timestamp {
    match renewed {
        RELEASED => Timestamp::from_millis(i64::MAX as u64),
        renewed => renewed,
    }
}

/// The end of a released lease.
pub(crate) const RELEASED: Timestamp = Timestamp::from_millis(0);

/// Rounds up to whole seconds, which DynamoDB's time to live needs. Rounding up keeps items from expiring early.
pub(super) fn whole_secs(at: Timestamp) -> Timestamp {
    Timestamp::from_secs(at.as_millis().div_ceil(1000))
}
