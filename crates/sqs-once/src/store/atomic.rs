//! Effects that commit together with the completion of their key.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::{
    BoxFuture, Claim, Claimed, Conflict, Item, Settlement, StoreError, StoreFuture, Writes,
};

/// Commits the [`Writes`] that handlers return with the completions of their keys.
///
/// A store that wraps [`DynamoDbStore`](crate::DynamoDbStore) forwards both calls to it.
pub trait AtomicWrites: Send + Sync {
    /// Commits `writes` and the settlement (a [`Settling::Commit`](super::Settling::Commit)) in one transaction: all of them
    /// or none. A repeated commit changes nothing, as with [`Store::settle`](super::Store::settle).
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>>;

    /// Commits each settlement with its writes, as [`commit`](Self::commit) does. Several may share a transaction, but each
    /// has its own answer, and none prevents another. Default: one transaction for each.
    ///
    /// The settlements of one slice have different ids.
    fn commit_all<'a>(
        &'a self,
        commits: &'a [(&'a Settlement, &'a Writes)],
    ) -> StoreFuture<'a, Committed> {
        let each = commits
            .iter()
            .map(|(settlement, writes)| self.commit(settlement, writes));
        Box::pin(join_all(each))
    }
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Committed {
    /// The writes are made, and the key is completed.
    Written,
    /// Nothing was written, because the key's existing item refused the commit.
    Refused(Box<Item>),
    /// Nothing was written, because the condition of one of the handler's own writes was not met. The key
    /// is not completed.
    Conflict(Box<Conflict>),
}

/// Opens transactions in which handlers do their work.
///
/// If the handler takes a transaction as an argument, [`Consumer`](crate::Consumer) begins one for each message, or one for
/// all messages of a batch handler. [`Invocation::run_in_transaction`](crate::once::Invocation::run_in_transaction) begins
/// one for its work.
pub trait Transactions: Send + Sync {
    /// Begins a transaction and writes the claims in it. Waits for other transactions on the same keys, for about
    /// `patience`. The transaction lasts for at most `limit`, which is never shorter than `patience`. The claims of one
    /// slice have different ids.
    ///
    /// # Errors
    /// [`StoreError`] if no transaction is open. If another transaction holds the key of the only claim for too long, that
    /// is an error too. With several claims, the answer to such a claim is [`Claimed::Refused`] with an item that is in
    /// progress, and the other claims go on.
    fn begin<'a>(
        &'a self,
        claims: &'a [Claim],
        patience: Duration,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>>;
}

/// The result of beginning a transaction.
#[non_exhaustive]
pub struct Begun {
    /// The answer to each claim, in order. A claimant owns its key once the transaction commits.
    pub answers: Vec<Result<Claimed, StoreError>>,
    /// The transaction. `None` if no claim was written.
    pub transaction: Option<Box<dyn OpenTransaction>>,
}

impl Begun {
    /// The answers to the claims, and the transaction that contains those that were written.
    pub fn new(
        answers: Vec<Result<Claimed, StoreError>>,
        transaction: Option<Box<dyn OpenTransaction>>,
    ) -> Self {
        Self {
            answers,
            transaction,
        }
    }
}

/// A transaction that contains claims. Dropping it rolls everything back, including the claims.
pub trait OpenTransaction: Send + Sync {
    /// Returns the handle from which the extractor makes the handler's argument, and [`FromTransaction`] the argument of
    /// work: see [`RecordParts::transaction`](crate::extract::RecordParts::transaction).
    fn handle(&self) -> Arc<dyn Any + Send + Sync>;

    /// Settles these claims, releases the transaction's other claims, and commits all of it together with the handler's
    /// work.
    ///
    /// # Errors
    /// [`StoreError`] if nothing was committed. After [`Unanswered`](super::StoreErrorKind::Unanswered), all of it may be
    /// committed. It is also an error if the handler ended the transaction itself: the claims are then missing from it.
    fn commit(
        self: Box<Self>,
        settlements: Vec<Settlement>,
    ) -> BoxFuture<'static, Result<(), StoreError>>;
}

/// The transaction that work takes as an argument in
/// [`Invocation::run_in_transaction`](crate::once::Invocation::run_in_transaction).
///
/// A store that implements [`Transactions`] implements it, and [`FromRecord`](crate::extract::FromRecord), for its own type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the transaction of a store",
    label = "not a transaction",
    note = "work takes the type that belongs to the store, such as `sqs_once_postgres::Transaction` for a `PostgresStore`"
)]
pub trait FromTransaction: Sized {
    /// Makes the argument from the [handle](OpenTransaction::handle) of an open transaction. Returns `None` if another
    /// kind of store has opened it.
    fn from_transaction(handle: Arc<dyn Any + Send + Sync>) -> Option<Self>;
}
