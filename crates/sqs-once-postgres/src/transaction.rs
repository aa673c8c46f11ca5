//! The transaction that a handler takes as an argument.

use std::any::Any;
use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use deadpool_postgres::tokio_postgres::types::ToSql;
use deadpool_postgres::tokio_postgres::{Error, Row, ToStatement};
use sqs_once::HandlerError;
use sqs_once::extract::{FromRecord, RecordParts};
use sqs_once::store::FromTransaction;

use crate::session::Session;

/// The transaction of a handler: an argument of the handler, for a consumer whose store is a
/// [`PostgresStore`](crate::PostgresStore).
///
/// Without SQS, it is an argument of the work that
/// [`Invocation::run_in_transaction`](sqs_once::once::Invocation::run_in_transaction) does. The same then applies to the work.
///
/// The handler's changes in this transaction commit together with the completion of its business key, or do not commit at
/// all. They do not commit if the handler fails, panics or is cancelled. If the process dies or the answer to the
/// commit is lost, both are committed or neither is. A concurrent delivery of the same message waits until this
/// transaction ends, and then is a duplicate or runs.
///
/// [`client`](Self::client) returns the driver's client, which has a cache of prepared statements
/// ([`prepare_cached`](ClientWrapper::prepare_cached)) and implements
/// [`GenericClient`](deadpool_postgres::GenericClient).
///
/// ```no_run
/// use sqs_once::HandlerError;
/// use sqs_once_postgres::Transaction;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { id: String, amount_cents: i64 }
///
/// #[sqs_once::handler(key = order.id, namespace = "orders")]
/// async fn place(order: OrderPlaced, tx: Transaction) -> Result<(), HandlerError> {
///     tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&order.id]).await?;
///
///     // Prepare a frequent statement once. Later executions save a round trip.
///     let book = tx.client().prepare_cached("UPDATE sales SET cents = cents + $1").await?;
///     tx.execute(&book, &[&order.amount_cents]).await?;
///
///     // A savepoint lets a statement fail without failing the message.
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
/// /// `idempotency` is `Idempotency::new("sales").store(PostgresStore::from_env()?)`.
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
///     Ok(sales.into_value()) // stored in the transaction: the same for a duplicate
/// }
/// ```
///
/// Name the columns of a prepared statement. After a migration that adds a column, `SELECT *` and `RETURNING *` fail once on
/// each connection. If the handler returns the error, its next call on the connection prepares the statement again.
///
/// The store begins and commits the transaction. In these cases the message fails and SQS delivers it again:
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
/// the message's remaining time when the transaction begins.
///
/// A transaction that rolls back leaves no fence in the table. The next claim of the key has a larger
/// [`fence`](sqs_once::extract::Attempt::fence) as far as the workers' clocks agree.
///
/// Effects outside the database, such as a call to another service or an email, are not part of the transaction. Send
/// the [`IdempotencyToken`](sqs_once::IdempotencyToken) with them, or store them in the database and send them later.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) session: Arc<Session>,
    /// The savepoint of a batch handler. It tells whether this outlives it.
    pub(crate) _savepoint: Option<Arc<()>>,
}

/// The most used statements. [`client`](Transaction::client) has the others.
impl Transaction {
    /// Returns the driver's client, with its cache of prepared statements. It is shared: the driver's methods that begin and
    /// end transactions need exclusive access.
    pub fn client(&self) -> &ClientWrapper {
        self.session.client()
    }

    /// Executes a statement. Returns the number of rows that it changed.
    ///
    /// # Errors
    /// The driver's error.
    pub async fn execute<T>(&self, statement: &T, values: &[Value<'_>]) -> Result<u64, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.client().execute(statement, values).await
    }

    /// Executes a statement. Returns its rows.
    ///
    /// # Errors
    /// The driver's error.
    pub async fn query<T>(&self, statement: &T, values: &[Value<'_>]) -> Result<Vec<Row>, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.client().query(statement, values).await
    }

    /// Executes a statement that returns exactly one row.
    ///
    /// # Errors
    /// The driver's error, also for another number of rows.
    pub async fn query_one<T>(&self, statement: &T, values: &[Value<'_>]) -> Result<Row, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.client().query_one(statement, values).await
    }

    /// Executes a statement that returns at most one row.
    ///
    /// # Errors
    /// The driver's error, also for more rows.
    pub async fn query_opt<T>(
        &self,
        statement: &T,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.client().query_opt(statement, values).await
    }

    /// Executes several statements without values, separated by `;`.
    ///
    /// # Errors
    /// The driver's error.
    pub async fn batch_execute(&self, statements: &str) -> Result<(), Error> {
        self.client().batch_execute(statements).await
    }
}

type Value<'a> = &'a (dyn ToSql + Sync);

impl<S: Sync> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        let open = parts.transaction().ok_or_else(|| {
            HandlerError::retry(
                "no transaction was opened for this message: `Transaction` is an argument of a handler that is called \
                 for each message, a batch handler takes a `BatchTransaction`, and an extractor that takes it sets \
                 `FromRecord::TRANSACTION`",
            )
        })?;
        Self::from_transaction(open).ok_or_else(|| {
            HandlerError::retry(
                "this message's transaction is from another store: give the consumer a PostgresStore",
            )
        })
    }
}

impl FromTransaction for Transaction {
    fn from_transaction(handle: Arc<dyn Any + Send + Sync>) -> Option<Self> {
        let session = handle.downcast().ok()?;
        Some(Self {
            session,
            _savepoint: None,
        })
    }
}
