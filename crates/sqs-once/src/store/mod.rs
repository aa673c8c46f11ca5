//! Where claims and completions are kept.
//!
//! [`Store`] takes slices, because a batch of records should cost a few requests and not two a
//! record. [`DynamoDbStore`] is for production, [`MemoryStore`] for tests; for stores of your own
//! the feature `conformance` has the suite that both pass.
//!
//! [`Claim`], [`Settlement`], [`Recording`] and [`Item`] may gain fields: a store makes them with `new` and then assigns.
//! The enums here are exhaustive, because a store must handle every case.

mod atomic;
mod data;
#[cfg(feature = "dynamodb")]
pub mod dynamodb;
mod error;
mod item;
mod memory;
#[cfg(not(feature = "dynamodb"))]
mod no_dynamodb;
mod off;
#[cfg(feature = "dynamodb")]
mod unquoted;

use std::future::Future;
use std::pin::Pin;

use crate::key::ItemId;

pub use atomic::{AtomicWrites, Begun, Committed, OpenTransaction, Transactions};
#[cfg(all(feature = "dynamodb", feature = "testing"))]
pub(crate) use aws_sdk_dynamodb::types::TransactWriteItem;
pub(crate) use data::recordable;
#[cfg(feature = "dynamodb")]
pub use dynamodb::{
    Conflict, DynamoDbStore, LayoutError, TableLayout, WriteName, Writes, WritesError,
};
pub use error::{StoreError, StoreErrorKind};
pub use item::{
    Claim, Fence, InvalidOwner, Item, Owner, Recording, Seen, Settlement, Settling, Status,
};
pub use memory::MemoryStore;
#[cfg(all(not(feature = "dynamodb"), feature = "testing"))]
pub(crate) use no_dynamodb::TransactWriteItem;
#[cfg(not(feature = "dynamodb"))]
pub(crate) use no_dynamodb::{Conflict, Writes};
pub(crate) use off::OffStore;
#[cfg(feature = "dynamodb")]
use unquoted::unquoted;

/// What a store answers to a slice: one result an entry, in the order of the slice.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Vec<Result<T, StoreError>>> + Send + 'a>>;

/// How a claim went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It was written, and the claimant owns the key.
    Written {
        /// The key's new fence.
        fence: Fence,
    },
    /// The existing item refused it.
    Refused(Box<Item>),
}

/// How a settlement went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was written.
    Written,
    /// The existing item refused it, or the key has no item.
    Refused(Option<Box<Item>>),
}

/// Keeps one item a business key, and changes it only when the item allows it.
///
/// Every entry of a slice is a conditional write of its own: it happens atomically, or not at all.
/// [`Claim::admitted_by`] and [`Settlement::admitted_by`] define when. The entries of one slice must have different ids;
/// otherwise their order is undefined.
///
/// An entry's `Err` means *unknown*: the write may have happened, or may happen later. The same
/// entry may be sent again: a second time it changes nothing, and either is `Written` again or is
/// refused by an item whose owner is the entry's.
pub trait Store: Send + Sync + 'static {
    /// Writes each claim that [`Claim::admitted_by`] allows. If a free item refuses a claim, the caller sends it again, as a claim
    /// that has seen the item.
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed>;

    /// Writes each settlement that [`Settlement::admitted_by`] allows.
    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled>;

    /// Reads items, with all confirmed writes. A starting function reads one id without an item, to open connections before the
    /// first claim.
    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>>;

    /// Identifies the place where this store keeps keys, such as a table's name with its region. Consumers with the same place and
    /// namespace but different handlers refuse to start. Default: `None`, and namespaces are not compared.
    fn identity(&self) -> Option<String> {
        None
    }

    /// What commits the [`Writes`] that handlers return. Default: nothing, and consumers with such a handler
    /// refuse to start on this store.
    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        None
    }

    /// What opens the transactions that handlers take as an argument. Default: nothing, and consumers with
    /// such a handler refuse to start on this store.
    fn transactions(&self) -> Option<&dyn Transactions> {
        None
    }
}
