//! Transactions that claim a key, run a handler and complete the claim.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, join, try_join};
use sqs_once::HandlerError;
use sqs_once::extract::{FromRecord, RecordParts};
use sqs_once::store::{
    Begun, Claim, Claimed, FromTransaction, OpenTransaction, Settlement, Settling, StoreError,
    StoreErrorKind, Transactions,
};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tracing::warn;

use crate::pool::{ANSWER_TIMEOUT, Connection, Connections, Failure};
use crate::statements::{ClaimOver, Statements};
use crate::{PostgresStore, errors, rows};

/// Time limit for a rollback. A rollback takes longer only if a statement still runs.
const SOON: Duration = Duration::from_millis(500);

/// The transaction of a handler: an argument of the handler, for a consumer whose store is a [`PostgresStore`].
///
/// Without SQS, it is an argument of the work that
/// [`Invocation::run_in_transaction`](sqs_once::Invocation::run_in_transaction) does. The same then applies to the work.
///
/// The handler's changes in this transaction commit together with the record of its business key, or do not commit at
/// all. They do not commit if the handler fails, panics or is cancelled. If the process dies or the answer to the
/// commit is lost, both are committed or neither is. A concurrent delivery of the same message waits until this
/// transaction ends, and then is a duplicate or runs.
///
/// It dereferences to the driver's [`Client`](tokio_postgres::Client) with a cache of prepared statements
/// ([`prepare_cached`](ClientWrapper::prepare_cached)), which implements
/// [`GenericClient`](deadpool_postgres::GenericClient).
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
///     // Prepare a frequent statement once. Later executions save a round trip.
///     let book = tx.prepare_cached("UPDATE sales SET cents = cents + $1").await?;
///     tx.execute(&book, &[&order.amount_cents]).await?;
///
///     // A savepoint lets a statement fail without failing the record.
///     tx.batch_execute("SAVEPOINT bonus").await?;
///     if tx.execute("INSERT INTO bonuses (id) VALUES ($1)", &[&order.id]).await.is_err() {
///         tx.batch_execute("ROLLBACK TO SAVEPOINT bonus").await?;
///     }
///     Ok(())
/// }
/// ```
///
/// Without SQS, here for an event that Lambda calls the function with:
///
/// ```no_run
/// use lambda_runtime::LambdaEvent;
/// use sqs_once::{Error, HandlerError, Idempotency};
/// use sqs_once_postgres::Transaction;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { id: String, amount_cents: i64 }
///
/// /// `idempotency` is `Idempotency::new().namespace("sales").store(PostgresStore::from_env()?)`.
/// async fn place(idempotency: &Idempotency, event: LambdaEvent<OrderPlaced>) -> Result<Option<i64>, Error> {
///     let order = event.payload;
///     let sales = idempotency
///         .until(event.context.deadline())
///         .run_in_transaction(&order.id, async |tx: Transaction, _token| {
///             let book = "UPDATE sales SET cents = cents + $1 RETURNING cents";
///             let sales = tx.query_one(book, &[&order.amount_cents]).await?;
///             Ok::<i64, HandlerError>(sales.try_get(0)?)
///         })
///         .await?;
///     Ok(sales.into_value()) // recorded in the transaction: the same for a duplicate
/// }
/// ```
///
/// The store begins and commits the transaction. In these cases the record fails and SQS delivers it again:
///
/// - The handler sends `COMMIT` or `ROLLBACK`.
/// - The handler ignores the error of a statement without a savepoint: PostgreSQL has then aborted the transaction.
/// - The handler leaves the transaction with a task that it spawned.
///
/// A statement whose future is dropped, for example by a timeout, may still run and then commits with the others. If it
/// must not commit, return an error from the handler.
///
/// The driver's errors show the values that violated a constraint (`DETAIL: Key (card)=(4111…) already exists`). An
/// error that the handler returns appears in the log and on the dead letter. To omit such values, use
/// [`without_values`](crate::without_values): `.map_err(without_values)?`.
///
/// Use savepoints for nested transactions, as above. The driver's own nested transactions (`tx.transaction()`) need
/// exclusive access to the client, so the compiler rejects them:
/// `cannot borrow data in dereference of Transaction as mutable` (E0596).
///
/// The store sets the transaction's `lock_timeout`, `statement_timeout` and `idle_in_transaction_session_timeout` to
/// the record's remaining time when the transaction begins. Effects outside the database, such as a call to another
/// service or an email, are not part of the transaction. Send the [`IdempotencyToken`](sqs_once::IdempotencyToken) with
/// them, or store them in the database and send them later.
#[derive(Debug)]
pub struct Transaction(Arc<Connection>);

/// Shared access only: the driver's methods that begin and end transactions need exclusive access.
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
        Self::from_transaction(open).ok_or_else(|| {
            HandlerError::retry(
                "this record's transaction is from another store: give the consumer a PostgresStore",
            )
        })
    }
}

impl FromTransaction for Transaction {
    fn from_transaction(handle: Arc<dyn Any + Send + Sync>) -> Option<Self> {
        handle.downcast().map(Self).ok()
    }
}

impl Transactions for PostgresStore {
    fn begin<'a>(
        &'a self,
        claim: &'a Claim,
        patience: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            // The server ends the wait for another transaction. Its answer may take a little longer.
            let longest = patience.saturating_add(ANSWER_TIMEOUT);
            let request = self.connections.request(longest, |connection| async move {
                // After an error the transaction is still open, so the connection must not return to the pool.
                let claimed = match self.claim_in(&connection, claim, patience).await {
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
    /// Begins a transaction and claims a key in it, in one round trip. If only the `BEGIN` fails, the claim commits on
    /// its own and expires with its lease.
    async fn claim_in(
        &self,
        connection: &Connection,
        claim: &Claim,
        patience: Duration,
    ) -> Result<Claimed, Failure> {
        let begin = async {
            // This answer comes at once, even if the claim waits for a lock.
            let begun = timeout(ANSWER_TIMEOUT, self.statements.begin(connection, patience)).await;
            let begun = begun.map_err(|_| Failure::Lost(errors::too_late(ANSWER_TIMEOUT)))?;
            begun.map_err(Failure::from)
        };
        let claims = [claim];
        let write = async {
            let written = self.statements.claim(connection, ClaimOver::Free, &claims);
            written.await.map_err(Failure::from)
        };
        let ((), written) = try_join(begin, write).await?;
        if let Some(row) = written.first() {
            let fence = rows::fence(row).map_err(Failure::Answered)?;
            return Ok(Claimed::Written { fence });
        }
        // The refused claim has locked the row, so the row cannot change before this read.
        let mut found = self.found(connection, &[claim.id.as_str()]).await?;
        let invisible = || Err(failed("the row that refused the claim is not visible"));
        let item = found.remove(&claim.id).unwrap_or_else(invisible);
        let item = item.map_err(Failure::Answered)?;
        Ok(Claimed::Refused(Box::new(item)))
    }
}

/// A transaction that contains a claim. Dropping it rolls it back.
struct Open {
    /// `None` after the transaction has ended.
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
            match self.connection.take().map(Arc::try_unwrap) {
                Some(Ok(connection)) => {
                    commit(&self.store.statements, connection, &settlement).await
                }
                Some(Err(shared)) => {
                    self.connection = Some(shared);
                    Err(failed(
                        "a task that the handler spawned still holds its transaction: nothing is committed; \
                         the handler must wait for tasks that use it",
                    ))
                }
                None => Err(failed("this transaction has ended")),
            }
        })
    }
}

/// Completes the claim and commits, in one round trip. The COMMIT is sent before the completion's answer arrives; if
/// the completion fails, the COMMIT is a rollback.
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
    let both = join(
        statements.complete(&connection, settlement, *expiration, data.as_ref()),
        connection.batch_execute("COMMIT"),
    );
    let Ok((completed, committed)) = timeout(ANSWER_TIMEOUT, both).await else {
        return Err(errors::too_late(ANSWER_TIMEOUT));
    };
    if !committed.as_ref().is_err_and(errors::is_lost) {
        connection.release();
    }
    // PostgreSQL reports success for a COMMIT that rolled back, so the completion's answer decides.
    completed.map_err(|error| match error.code() {
        Some(code) if *code == SqlState::DIVISION_BY_ZERO => failed(
            "the claim is not in this transaction: the handler sent COMMIT or ROLLBACK, which only the store may send",
        ),
        Some(code) if *code == SqlState::IN_FAILED_SQL_TRANSACTION => failed(
            "a statement of the handler failed and the handler continued: nothing is committed; \
             put a savepoint before statements that may fail",
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

/// Rolls back. If the rollback succeeds, the next record uses the connection. Opening a new connection after every
/// failure would add load to a database that may already have too much.
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
                "a task that a handler spawned still holds its transaction: the store ends the session"
            );
            // A statement that the task sends after a ROLLBACK would run outside any transaction and commit.
            let end = "SELECT pg_terminate_backend(pg_backend_pid())";
            is_ended(&connections, &shared, end).await;
        }
    }
}

/// Returns whether `statement` completed within [`SOON`]. Otherwise this cancels the running statement, and the
/// connection must not be reused: a late cancellation would end the next statement.
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
