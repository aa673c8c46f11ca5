//! Transactions in which a key is claimed, a handler works, and the claim is completed.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, join, try_join};
use sqs_once::HandlerError;
use sqs_once::extract::{FromRecord, RecordParts};
use sqs_once::store::{
    Begun, Claim, Claimed, OpenTransaction, Settlement, Settling, StoreError, StoreErrorKind,
    Transactions,
};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tracing::warn;

use crate::pool::{ANSWER_TIMEOUT, Connection, Connections, Failure};
use crate::statements::{End, Statements};
use crate::{PostgresStore, errors, rows};

/// A rollback takes no longer, unless a statement is still running.
const SOON: Duration = Duration::from_millis(500);

/// The transaction that a handler works in: an argument of the handler, on a consumer whose store is a
/// [`PostgresStore`].
///
/// What the handler does in it commits together with the record of its business key, or does not happen at
/// all: when the handler fails, panics or is cancelled, when the process dies, when the answer to the commit is lost.
/// A delivery of the same message at the same time waits until this one has ended, and then is a duplicate or runs.
///
/// It is the driver's [`Client`](tokio_postgres::Client) with a cache of prepared statements
/// ([`prepare_cached`](ClientWrapper::prepare_cached)), and implements
/// [`GenericClient`](deadpool_postgres::GenericClient) by what it derefs to.
///
/// ```no_run
/// use sqs_once::HandlerError;
/// use sqs_once_postgres::Transaction;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { id: String, amount_cents: i64 }
///
/// #[sqs_once::handler(key = order.id)]
/// async fn place(order: OrderPlaced, tx: Transaction) -> Result<(), HandlerError> {
///     tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&order.id]).await?;
///
///     // Of statements that run often only the first one is prepared, which saves the others a round trip.
///     let book = tx.prepare_cached("UPDATE sales SET cents = cents + $1").await?;
///     tx.execute(&book, &[&order.amount_cents]).await?;
///
///     // What may fail without failing the record goes behind a savepoint.
///     tx.batch_execute("SAVEPOINT bonus").await?;
///     if tx.execute("INSERT INTO bonuses (id) VALUES ($1)", &[&order.id]).await.is_err() {
///         tx.batch_execute("ROLLBACK TO SAVEPOINT bonus").await?;
///     }
///     Ok(())
/// }
/// ```
///
/// Beginning and committing are the store's: a handler that sends `COMMIT` or `ROLLBACK` by itself fails, and its
/// record comes again. So does one that swallows the error of a statement without a savepoint, since PostgreSQL
/// has then given up the transaction, and one that has left the transaction with something it spawned.
///
/// A statement whose future is dropped, as by a timeout around it, may run all the same, and then commits with the
/// others: fail the handler where that must not be.
///
/// An error of the driver shows the values that violated a constraint (`DETAIL: Key (card)=(4111…) already exists`), and
/// what a handler returns as its error goes into the log and onto a dead letter. Where such values don't belong there,
/// [`without_values`](crate::without_values) leaves them out: `.map_err(without_values)?`.
///
/// Transactions inside of it are savepoints, as above. The driver's own (`tx.transaction()`) want the client exclusively,
/// and the compiler refuses them: `cannot borrow data in dereference of Transaction as mutable` (E0596).
///
/// The transaction's `lock_timeout`, `statement_timeout` and `idle_in_transaction_session_timeout` are what is left for
/// the record when it begins. What does not belong to the database (a call to another service, an email) does not
/// become part of the transaction by being made meanwhile: give it the
/// [`IdempotencyToken`](sqs_once::IdempotencyToken), or write it down here and send it later.
#[derive(Debug)]
pub struct Transaction(Arc<Connection>);

/// Shared only: what begins and ends transactions of the driver's own wants it exclusively.
impl Deref for Transaction {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.0
    }
}

impl<S: Sync> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        let open = parts.transaction().ok_or_else(|| {
            HandlerError::retry(
                "no transaction was opened for this record: `Transaction` is an argument of a handler that is called \
                 for each record, a batch handler can have none, and an extractor that takes it sets \
                 `FromRecord::TRANSACTION`",
            )
        })?;
        open.downcast().map(Self).map_err(|_| {
            HandlerError::retry(
                "this record's transaction is another store's: give the consumer a PostgresStore",
            )
        })
    }
}

impl Transactions for PostgresStore {
    fn begin<'a>(
        &'a self,
        claim: &'a Claim,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            // The server ends the wait for another transaction; its answer may need a moment more.
            let longest = patience.saturating_add(ANSWER_TIMEOUT);
            let request = self.connections.request(longest, |connection| async move {
                let claimed = self.claim_in(&connection, claim, patience).await;
                // A transaction is open then too, and the connection does not go back with it.
                let claimed = match claimed {
                    Err(Failure::Answered(error)) => Ok(Err(error)),
                    claimed => claimed.map(Ok),
                };
                (claimed, connection)
            });
            let (claimed, connection) = request.await?;
            let open = Open {
                connection: Some(Arc::new(connection)),
                store: self.clone(),
                runtime: Handle::current(),
            };
            Ok(match claimed? {
                Claimed::Written { fence } => Begun::Open {
                    fence,
                    transaction: Box::new(open),
                },
                Claimed::Refused(item) => Begun::Refused(item),
            })
        })
    }
}

impl PostgresStore {
    /// Begins a transaction and claims a key in it, in one round trip. Should the beginning alone fail, the claim
    /// is one as any other, and lapses with its lease.
    async fn claim_in(
        &self,
        connection: &Connection,
        claim: &Claim,
        patience: Duration,
    ) -> Result<Claimed, Failure> {
        let begin = async {
            // Nothing else holds this answer up, however long the claim waits.
            let begun = timeout(ANSWER_TIMEOUT, self.statements.begin(connection, patience)).await;
            let begun = begun.map_err(|_| Failure::Lost(errors::too_late(ANSWER_TIMEOUT)))?;
            begun.map_err(Failure::from)
        };
        let claims = [claim];
        let write = async {
            let written = self.statements.claim(connection, &claims).await;
            written.map_err(Failure::from)
        };
        let ((), written) = try_join(begin, write).await?;
        if let Some(row) = written.first() {
            let fence = rows::fence(row).map_err(Failure::Answered)?;
            return Ok(Claimed::Written { fence });
        }
        // The row that refused the claim is locked by it: this is what it says.
        let mut found = self.found(connection, &[claim.id.as_str()]).await?;
        match found.remove(&claim.id) {
            Some(Ok(item)) => Ok(Claimed::Refused(Box::new(item))),
            Some(Err(error)) => Err(Failure::Answered(error)),
            None => Err(Failure::Answered(StoreError::new(
                StoreErrorKind::Other,
                "the row that refused the claim is not to be seen",
            ))),
        }
    }
}

/// A transaction with a claim in it. Dropped, it is rolled back.
struct Open {
    /// Taken out by what ends the transaction.
    connection: Option<Arc<Connection>>,
    store: PostgresStore,
    runtime: Handle,
}

impl OpenTransaction for Open {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        match &self.connection {
            Some(connection) => Arc::clone(connection) as _,
            None => Arc::new(()),
        }
    }

    fn commit(
        mut self: Box<Self>,
        settlement: Settlement,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(async move {
            let connection = self.connection.take().map(Arc::try_unwrap);
            match connection {
                Some(Ok(connection)) => {
                    commit(&self.store.statements, connection, &settlement).await
                }
                Some(Err(shared)) => {
                    self.connection = Some(shared);
                    Err(failed(
                        "something that the handler has spawned still has its transaction: nothing is committed; \
                         the handler has to wait for what works in it",
                    ))
                }
                None => Err(failed("this transaction has ended")),
            }
        })
    }
}

/// Completes the claim and commits, in one round trip: the COMMIT is sent before the completion is answered,
/// and is a rollback if that has failed.
async fn commit(
    statements: &Statements,
    connection: Connection,
    settlement: &Settlement,
) -> Result<(), StoreError> {
    let Settling::Complete {
        expiration, data, ..
    } = &settlement.settling
    else {
        return Err(failed("only a completion commits with a transaction"));
    };
    let end = End {
        id: &settlement.id,
        owner: settlement.owner,
        completion: Some((*expiration, data.as_ref())),
    };
    let both = join(
        statements.complete(&connection, &end),
        connection.batch_execute("COMMIT"),
    );
    let Ok((completed, committed)) = timeout(ANSWER_TIMEOUT, both).await else {
        return Err(errors::too_late(ANSWER_TIMEOUT));
    };
    let is_over = match &committed {
        Ok(()) => true,
        Err(error) => !errors::is_lost(error),
    };
    if is_over {
        connection.release();
    }
    // Of a COMMIT that was a rollback PostgreSQL says that it went well: only a completion before it counts.
    completed.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::DIVISION_BY_ZERO => failed(
            "the claim is not in this transaction: the handler has sent COMMIT or ROLLBACK, which are the store's",
        ),
        Some(code) if *code == SqlState::IN_FAILED_SQL_TRANSACTION => failed(
            "a statement of the handler has failed and it went on: nothing is committed; what may fail goes \
             behind a savepoint",
        ),
        _ => errors::request(error),
    })?;
    committed.map_err(errors::request)
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let connections = self.store.connections.clone();
            self.runtime.spawn(give_up(connections, connection));
        }
    }
}

/// Rolls back. The connection goes on to the next record if that was answered: a new one for every record that
/// fails would be a burden on the database just when it may have enough of them.
async fn give_up(connections: Connections, connection: Arc<Connection>) {
    match Arc::try_unwrap(connection) {
        Ok(connection) => {
            if is_ended(&connections, &connection, "ROLLBACK").await {
                connection.release();
            }
        }
        Err(shared) => {
            warn!(
                target: "sqs_once::store",
                "something that a handler has spawned still has its transaction: the session is ended"
            );
            // After a ROLLBACK its next statement would be one of no transaction, and stay.
            let end = "SELECT pg_terminate_backend(pg_backend_pid())";
            is_ended(&connections, &shared, end).await;
        }
    }
}

/// Whether `statement` was answered soon. If not, what still runs on the connection is cancelled, and it can't be used
/// again: a cancellation that comes late would end what runs next.
async fn is_ended(connections: &Connections, connection: &Connection, statement: &str) -> bool {
    match timeout(SOON, connection.batch_execute(statement)).await {
        Ok(answer) => answer.is_ok(),
        Err(_) => {
            connections.cancel(connection).await;
            false
        }
    }
}

fn failed(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Other, message)
}
