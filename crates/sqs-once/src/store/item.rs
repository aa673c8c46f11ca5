//! One item a business key, and when a write to it is allowed.
//!
//! The conditions here are the reference: a store's own conditions must decide the same.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::key::{Fingerprint, ItemId};
use crate::time::Timestamp;

/// The identity of one attempt: 128 random bits, fresh for every claim. Only the owner of a claim
/// may complete or release it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

/// An owner in a table is not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an owner has 32 hexadecimal digits")]
pub struct InvalidOwner;

impl Owner {
    /// An owner made of random bits.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Reads an owner as stored in the table.
    ///
    /// # Errors
    /// [`InvalidOwner`] unless it has 32 hexadecimal digits.
    pub fn from_stored(hex: &str) -> Result<Self, InvalidOwner> {
        // A number may have a sign.
        if hex.len() != 32 || hex.starts_with('+') {
            return Err(InvalidOwner);
        }
        u128::from_str_radix(hex, 16)
            .map(Self)
            .map_err(|_| InvalidOwner)
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

/// A fencing token: every claim of a key has a larger one than the claim before.
///
/// A key's first fence is the time of its claim in milliseconds, so that fences go on growing when
/// an expired item was deleted in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Reads a fence as stored in the table.
    pub const fn from_stored(fence: u64) -> Self {
        Self(fence)
    }

    /// The fence of a key's first claim.
    pub const fn first(now: Timestamp) -> Self {
        Self(now.as_millis())
    }

    /// The fence after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The fence as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far the work for a key has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// A worker claimed the key and works on it, or did until its lease lapsed.
    InProgress,
    /// The effect is done and recorded.
    Completed,
    /// A status that no version of the protocol writes. No worker may claim such a key.
    Unknown(String),
}

/// What a store holds for one key. Items written by Powertools for AWS Lambda have neither owner nor
/// fence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The partition key.
    pub id: ItemId,
    /// How far the work has come.
    pub status: Status,
    /// Until when the owner may be working.
    pub lease_until: Option<Timestamp>,
    /// Until when a duplicate is recognised, in whole seconds. The store may delete the item later.
    pub expiration: Option<Timestamp>,
    /// The payload's fingerprint.
    pub fingerprint: Option<Fingerprint>,
    /// What the handler asked to record.
    pub data: Option<Arc<str>>,
    /// Whose claim or completion this is.
    pub owner: Option<Owner>,
    /// The fence of the last claim.
    pub fence: Option<Fence>,
}

impl Item {
    /// Creates an item without further attributes. Assign those that it has.
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

    fn is_expired(&self, now: Timestamp) -> bool {
        self.expiration
            .is_some_and(|expiration| expiration.as_secs() < now.as_secs())
    }
}

/// The item that a claim's sender has seen, which the claim replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Seen {
    /// No item, as far as the sender knows.
    #[default]
    Nothing,
    /// An item that was free. It has this fence; items of Powertools for AWS Lambda have none.
    Item(Option<Fence>),
}

/// A request to own a key for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// Which key.
    pub id: ItemId,
    /// Who claims.
    pub owner: Owner,
    /// The time of the claim.
    pub now: Timestamp,
    /// Until when the owner may work.
    pub lease_until: Timestamp,
    /// When the item may be deleted if the claim never ends; stored rounded up to the second.
    pub expiration: Timestamp,
    /// The payload's fingerprint, where it is checked.
    pub fingerprint: Option<Fingerprint>,
    /// The item that the claim replaces.
    pub seen: Seen,
}

impl Claim {
    /// Creates the claim of a key whose item the claimant has not seen, without a fingerprint.
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

    /// Whether this claim may be written over `existing`: there is nothing, or the very item that its sender saw, as
    /// free as it was.
    ///
    /// Every claim raises the fence, so a claim that is carried out again, and late, changes nothing. A completion does
    /// not raise the fence: the item must be [free](Self::finds_free) still.
    pub fn admitted_by(&self, existing: Option<&Item>) -> bool {
        existing.is_none_or(|item| self.seen == Seen::Item(item.fence) && self.finds_free(item))
    }

    /// Whether `item` is free: a completion past its expiry, or another claim past its lease.
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

    /// The item that this claim leaves where `existing` stood.
    pub fn write(&self, existing: Option<&Item>) -> Item {
        let last_fence = existing.and_then(|item| item.fence);
        let mut item = Item::new(self.id.clone(), Status::InProgress);
        item.lease_until = Some(self.lease_until);
        item.expiration = Some(whole_secs(self.expiration));
        item.fingerprint.clone_from(&self.fingerprint);
        item.owner = Some(self.owner);
        item.fence = Some(last_fence.map_or(Fence::first(self.now), Fence::next));
        item
    }
}

/// How a claim ends, or an effect is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// Which key.
    pub id: ItemId,
    /// Whose claim.
    pub owner: Owner,
    /// How it ends.
    pub settling: Settling,
}

/// The ways a claim ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settling {
    /// The effect is done.
    #[non_exhaustive]
    Complete {
        /// Until when a duplicate is recognised; kept rounded up to the second.
        expiration: Timestamp,
        /// What the handler asked to record.
        data: Option<Arc<str>>,
    },
    /// The attempt failed: the next one need not wait for the lease. The item stays, so that its
    /// fence keeps growing and a late copy of the claim finds it.
    Release,
    /// The effect is done, without a claim before it.
    Record(Recording),
    /// The effect commits together with this, or not at all.
    Commit(Recording),
}

/// The record of an effect whose key may not have been claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recording {
    /// The time of the recording.
    pub now: Timestamp,
    /// Until when a duplicate is recognised; kept rounded up to the second.
    pub expiration: Timestamp,
    /// The payload's fingerprint, where it is checked.
    pub fingerprint: Option<Fingerprint>,
    /// What the handler asked to record.
    pub data: Option<Arc<str>>,
}

impl Recording {
    /// Creates the recording at `now` of an effect whose duplicates are recognised until `expiration`, without fingerprint and data.
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
    /// The completion of a claim.
    pub fn complete(expiration: Timestamp, data: Option<Arc<str>>) -> Self {
        Self::Complete { expiration, data }
    }
}

impl Settlement {
    /// Creates the settlement of `owner` for one key.
    pub fn new(id: ItemId, owner: Owner, settling: Settling) -> Self {
        Self {
            id,
            owner,
            settling,
        }
    }

    /// Whether this settlement may be written over `existing`. A completion needs its own claim, or
    /// itself; a release needs its own claim, still in progress; a record without a claim needs
    /// anything but a valid completion, be it its own. A commit needs its own claim, still in progress, or
    /// what a claim would need: a completion refuses it, its own too, for its effect would happen again.
    pub fn admitted_by(&self, existing: Option<&Item>) -> bool {
        let mine = |item: &Item| item.owner == Some(self.owner);
        match (&self.settling, existing) {
            (Settling::Complete { .. }, Some(item)) => mine(item),
            (Settling::Release, Some(item)) => mine(item) && item.status == Status::InProgress,
            (Settling::Complete { .. } | Settling::Release, None) => false,
            (Settling::Record(recording), Some(item)) => match item.status {
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
            (Settling::Record(_) | Settling::Commit(_), None) => true,
        }
    }

    /// The item that this settlement leaves where `existing` stood.
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
                // The claim has cleared what was recorded before.
                if data.is_some() {
                    item.data.clone_from(data);
                }
            }
            Settling::Release => item.lease_until = Some(Timestamp::default()),
            Settling::Record(recording) | Settling::Commit(recording) => {
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

/// DynamoDB's time to live wants whole seconds; rounded up, so that nothing is forgotten early.
pub(super) fn whole_secs(at: Timestamp) -> Timestamp {
    Timestamp::from_secs(at.as_millis().div_ceil(1000))
}
