//! Where claims and completions are kept.
//!
//! [`Store`] takes slices, because a batch of records should cost a few requests and not two a
//! record. [`DynamoDbStore`] is for production, [`MemoryStore`] for tests; for stores of your own
//! the feature `conformance` has the suite that both pass.

mod atomic;
mod data;
pub mod dynamodb;
mod error;
mod item;
mod memory;
mod off;

use std::future::Future;
use std::pin::Pin;

use crate::key::ItemId;

pub use atomic::{AtomicWrites, Begun, Committed, OpenTransaction, Transactions};
pub(crate) use data::recordable;
pub use dynamodb::{
    Conflict, DynamoDbStore, LayoutError, TableLayout, WriteName, Writes, WritesError,
};
use error::unquoted;
pub use error::{StoreError, StoreErrorKind};
pub use item::{
    Claim, Fence, InvalidOwner, Item, Owner, Recording, Seen, Settlement, Settling, Status,
};
pub use memory::MemoryStore;
pub(crate) use off::OffStore;

/// What a store answers to a slice: one result an entry, in the order of the slice.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Vec<Result<T, StoreError>>> + Send + 'a>>;

/// How a claim went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It was written: the key is the claim's owner's.
    Written {
        /// The key's new fence.
        fence: Fence,
    },
    /// It was refused by the item that stands there.
    Refused(Box<Item>),
}

/// How a settlement went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was written.
    Written,
    /// It was refused by the item that stands there, or because there is none.
    Refused(Option<Box<Item>>),
}

/// Keeps one item a business key, and changes it only when the item allows it.
///
/// Every entry of a slice is a conditional write of its own: it happens atomically, or not at all.
/// [`Claim::admitted_by`] and [`Settlement::admitted_by`] say when. The entries of one slice have
/// different ids, except by mistake of the caller; their order is then undefined.
///
/// An entry's `Err` means *unknown*: the write may have happened, or may happen later. The same
/// entry may be sent again: a second time it changes nothing, and either is `Written` again or is
/// refused by an item whose owner is the entry's.
pub trait Store: Send + Sync + 'static {
    /// Writes each claim that [`Claim::admitted_by`] allows. A claim that was refused by an item that is free is sent
    /// again by the caller, as one that has seen that item.
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed>;

    /// Writes each settlement that [`Settlement::admitted_by`] allows.
    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled>;

    /// Reads items, each as new as the last write that was answered. A function reads one id that nothing is
    /// kept under when it starts, so that connections are open before the first claim.
    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>>;

    /// What tells this store from another one in a process, such as a table's name with its region. Two consumers
    /// whose stores say the same keep their keys in one place, and refuse to start with one namespace for different
    /// handlers. Default: nothing, and namespaces on this store are not compared.
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
