//! Stores for claims and completions.
//!
//! [`Store`] takes slices, so that a batch of messages costs a few requests instead of two for each message.
//! [`DynamoDbStore`](crate::DynamoDbStore) is for production, and [`MemoryStore`] for tests. To test your own store, run the
//! suite that both pass (feature `conformance`).
//!
//! [`Claim`], [`Settlement`], [`UnclaimedCompletion`] and [`Item`] may gain fields: create them with `new` and then assign
//! fields. [`Settling`] may gain variants: a store answers one that it does not know with an error.

mod atomic;
mod data;
#[cfg(feature = "dynamodb")]
pub(crate) mod dynamodb;
mod error;
mod item;
mod memory;
#[cfg(not(feature = "dynamodb"))]
mod no_dynamodb;

use std::pin::Pin;
use std::sync::Arc;

use crate::key::ItemId;

pub use crate::time::Timestamp;
pub use atomic::{AtomicWrites, Begun, Committed, FromTransaction, OpenTransaction, Transactions};
#[cfg(all(feature = "dynamodb", feature = "testing"))]
pub(crate) use aws_sdk_dynamodb::types::TransactWriteItem;
pub(crate) use data::recordable;
#[cfg(feature = "dynamodb")]
pub(crate) use dynamodb::Writes;
#[cfg(feature = "dynamodb")]
pub use dynamodb::{Conflict, TableLayout};
#[cfg(feature = "dynamodb")]
use error::unquoted;
pub use error::{StoreError, StoreErrorKind};
pub(crate) use item::RELEASED;
pub use item::{
    CarryOver, Claim, Fence, Item, Owner, Seen, Settlement, Settling, Status, UnclaimedCompletion,
};
pub use memory::MemoryStore;
pub(crate) use memory::OffStore;
#[cfg(all(not(feature = "dynamodb"), feature = "testing"))]
pub(crate) use no_dynamodb::TransactWriteItem;
#[cfg(not(feature = "dynamodb"))]
pub(crate) use no_dynamodb::{Conflict, Writes};

/// A future of a store.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[cfg(any(feature = "dynamodb", feature = "testing"))]
pub(crate) type CommitFuture<'a> = BoxFuture<'a, Result<Committed, StoreError>>;
pub(crate) type Answers<T> = Vec<Result<T, StoreError>>;

/// A store's answer to a slice: one result for each entry, in the order of the slice.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Vec<Result<T, StoreError>>> + Send + 'a>>;

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claim was written, and the claimant owns the key.
    Written {
        /// The key's new fence.
        fence: Fence,
    },
    /// The existing item refused the claim.
    Refused(Box<Item>),
}

/// The result of a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The settlement was written.
    Written,
    /// The existing item refused the settlement, or the key has no item.
    Refused(Option<Box<Item>>),
}

/// Keeps one item for each business key. An item changes only if its current state allows the write.
///
/// Every entry of a slice is a separate, atomic conditional write. [`Claim::admitted_by`] and
/// [`Settlement::admitted_by`] define the conditions. The entries of one slice must have different ids; otherwise their
/// order is undefined.
///
/// `Err` for an entry means *unknown*: the write may have happened, or may happen later. The caller may send the same
/// entry again. If the first write happened, the second changes nothing: the result is `Written` again, or a refusal by
/// an item that has the entry's owner.
pub trait Store: Send + Sync + 'static {
    /// Writes each claim that [`Claim::admitted_by`] allows. If a free item refuses a claim, the caller sends the claim
    /// again with the item as [`Claim::seen`].
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed>;

    /// Writes each settlement that [`Settlement::admitted_by`] allows.
    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled>;

    /// Reads items, including all confirmed writes. A starting function reads one id that has no item, to open
    /// connections before the first claim.
    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>>;

    /// Identifies the place where this store keeps keys, such as a table's name with its region. Consumers with the
    /// same place and namespace but different handlers refuse to start. Default: `None`, and namespaces are not
    /// compared.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Returns the interface that commits the [`Writes`] that handlers and work return. Default: `None`, and consumers
    /// with such a handler refuse to start on this store.
    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        None
    }

    /// Returns the interface that opens the transactions that handlers and work take as an argument. Default: `None`,
    /// and consumers with such a handler refuse to start on this store.
    fn transactions(&self) -> Option<&dyn Transactions> {
        None
    }
}

/// A store that several consumers share, or that the program chooses when it starts.
impl<S: Store + ?Sized> Store for Arc<S> {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        (**self).claim(claims)
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        (**self).settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        (**self).read(ids)
    }

    fn identity(&self) -> Option<String> {
        (**self).identity()
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        (**self).atomic_writes()
    }

    fn transactions(&self) -> Option<&dyn Transactions> {
        (**self).transactions()
    }
}
