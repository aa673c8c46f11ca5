//! Effects that commit together with the record of their key.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::{Claim, Conflict, Fence, Item, Settlement, StoreError, Writes};

/// Commits what handlers return as [`Writes`].
///
/// For stores of your own that wrap [`DynamoDbStore`](super::DynamoDbStore): hand the call on.
pub trait AtomicWrites: Send + Sync {
    /// Makes all of `writes` and the settlement, which is a [`Settling::Commit`](super::Settling::Commit),
    /// or nothing of it. A second time it changes nothing, as with [`Store::settle`](super::Store::settle).
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>>;
}

/// How a commit went.
#[derive(Clone, Debug, PartialEq)]
pub enum Committed {
    /// The writes are made and the key is recorded.
    Written,
    /// Nothing was written, because of the key's existing item.
    Refused(Box<Item>),
    /// Nothing was written, because the condition of one of the handler's own writes was not met. The key
    /// is not completed.
    Conflict(Box<Conflict>),
}

/// Opens transactions in which handlers do their work.
///
/// [`Consumer`](crate::Consumer) begins one for every record whose handler takes it as an argument.
pub trait Transactions: Send + Sync {
    /// Begins a transaction and writes the claim in it. Waits for another transaction on the same key,
    /// `patience` at most.
    fn begin<'a>(
        &'a self,
        claim: &'a Claim,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>>;
}

/// How the beginning of a transaction went.
pub enum Begun {
    /// It is open. The claimant owns the key if it commits.
    Open {
        /// The key's new fence.
        fence: Fence,
        /// The transaction.
        transaction: Box<dyn OpenTransaction>,
    },
    /// The existing item refused the claim, and no transaction is open.
    Refused(Box<Item>),
}

/// A transaction with a claim in it. When it is dropped nothing of it happens, the claim included.
pub trait OpenTransaction: Send + Sync {
    /// What the handler's extractor makes its argument of: see [`RecordParts::transaction`](crate::extract::RecordParts::transaction).
    fn handle(&self) -> Arc<dyn Any + Send + Sync>;

    /// Settles the claim, and commits that together with what the handler did.
    ///
    /// # Errors
    /// Neither is committed. After an error of the kind [`Unanswered`](super::StoreErrorKind::Unanswered) both may be committed. If
    /// the handler ended the transaction itself, the claim is missing from it, which is an error too.
    fn commit(
        self: Box<Self>,
        settlement: Settlement,
    ) -> BoxFuture<'static, Result<(), StoreError>>;
}
