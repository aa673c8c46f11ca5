//! The transaction that a batch handler takes as an argument.

use std::any::Any;
use std::sync::Arc;

use futures_util::future::join;
use sqs_once::HandlerError;
use sqs_once::extract::{BatchParts, FromBatch};
use sqs_once::handler::BatchRecord;
use sqs_once::key::ItemId;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::Transaction;
use crate::session::{RELEASE, SAVEPOINT, Session, UNDO, forget_statements};

/// The transaction of a batch handler, for a consumer whose store is a [`PostgresStore`](crate::PostgresStore). It is
/// one transaction for all messages of the call.
///
/// The statements of each message run in a [`savepoint`](Self::savepoint), so that a message that fails does not undo the
/// others. When the handler has returned, the changes of the messages that succeeded commit together with the completions
/// of their keys, or nothing commits. If the process dies, nothing has happened, and the keys are free.
///
/// ```
/// use sqs_once::{Batch, BatchOutcome, HandlerError};
/// use sqs_once_postgres::BatchTransaction;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { id: String, amount_cents: i64 }
///
/// #[sqs_once::batch_handler(key = order.id, namespace = "orders")]
/// async fn place(orders: Batch<OrderPlaced>, mut tx: BatchTransaction) -> Result<BatchOutcome, HandlerError> {
///     let mut outcome = orders.outcome();
///     for record in &orders {
///         let order = record.payload();
///         let placed = tx.savepoint([record], async |tx| {
///             tx.execute("INSERT INTO orders (id) VALUES ($1)", &[&order.id]).await?;
///             tx.execute("UPDATE sales SET cents = cents + $1", &[&order.amount_cents]).await
///         });
///         outcome.ended(record, placed.await.map(drop));
///     }
///     Ok(outcome)
/// }
/// ```
///
/// A statement for several messages needs one savepoint. It succeeds or fails for all of them:
///
/// ```
/// # use sqs_once::{Batch, BatchOutcome, HandlerError};
/// # use sqs_once_postgres::BatchTransaction;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { id: String }
/// #[sqs_once::batch_handler(key = order.id, namespace = "orders")]
/// async fn place(orders: Batch<OrderPlaced>, mut tx: BatchTransaction) -> Result<BatchOutcome, HandlerError> {
///     let ids: Vec<_> = orders.payloads().map(|order| order.id.as_str()).collect();
///     tx.savepoint(&orders, async |tx| {
///         tx.execute("INSERT INTO orders (id) SELECT unnest($1::text[])", &[&ids]).await
///     })
///     .await?; // returns all messages to the queue
///     Ok(orders.all_succeeded())
/// }
/// ```
///
/// # Promise
///
/// *Effectively once* for each message, as for a [`Transaction`]. Nothing commits, and every message fails, if:
///
/// - a message is reported as failed although a savepoint with its statements succeeded,
/// - a task keeps the savepoint's [`Transaction`] for longer than the savepoint, or
/// - a deferred constraint is violated at the commit. Use constraints that PostgreSQL checks with each statement.
///
/// Never send `COMMIT` or `ROLLBACK`: every message fails, and statements before the `COMMIT` or after the `ROLLBACK` stay.
///
/// The handler keeps the order of a FIFO message group: it stops at the first failure of a group, and leaves the rest
/// unreported.
///
/// # What it costs
///
/// One round trip for all claims, one for each savepoint in addition to its statements, and one for all completions and
/// the commit. A key that another transaction holds delays the call by about a second, and its message returns to the queue.
/// PostgreSQL keeps up to 64 savepoints with changes in memory. More of them slow down other sessions that read the
/// same rows, so write many messages with one statement, or receive smaller batches.
///
/// The time limits of a [`Transaction`] apply. The consumer logs errors: [`without_values`](crate::without_values) removes
/// column values from them.
#[derive(Debug)]
pub struct BatchTransaction(Arc<Session>);

impl BatchTransaction {
    /// Runs the statements of these messages in a savepoint. If `work` fails, its statements are undone, and those of
    /// other savepoints stay.
    ///
    /// A savepoint whose future is dropped is undone before the next one begins.
    ///
    /// # Errors
    /// The error of `work`, or of PostgreSQL. Return it for these messages, for example with
    /// [`BatchOutcome::ended`](sqs_once::BatchOutcome::ended).
    pub async fn savepoint<'r, T: 'r, R, E: Into<HandlerError>>(
        &mut self,
        records: impl IntoIterator<Item = &'r BatchRecord<T>>,
        work: impl AsyncFnOnce(Transaction) -> Result<R, E>,
    ) -> Result<R, HandlerError> {
        let records = records.into_iter();
        let keys: Vec<_> = records.map(|record| record.item_id().clone()).collect();
        self.run(keys, work).await
    }

    async fn run<R, E: Into<HandlerError>>(
        &mut self,
        keys: Vec<ItemId>,
        work: impl AsyncFnOnce(Transaction) -> Result<R, E>,
    ) -> Result<R, HandlerError> {
        let client = self.0.client();
        self.check_left()?;
        let savepoint = Arc::new(());
        let dropped = self.0.savepoints().open.replace(Arc::clone(&savepoint));
        // One request, so that a savepoint is open whenever this future is dropped.
        let begin = match dropped {
            Some(_) => format!("{UNDO}; {SAVEPOINT}"),
            None => SAVEPOINT.to_owned(),
        };
        // The first statement of the work is sent without waiting for the savepoint's answer, and after it: `join` polls
        // in order, and the work begins with its first poll.
        let transaction = Transaction {
            session: Arc::clone(&self.0),
            _savepoint: Some(savepoint),
        };
        let worked = async { work(transaction).await };
        let (begun, worked) = join(client.batch_execute(&begin), worked).await;
        self.check_left()?;
        let ended = match (worked, begun) {
            (Ok(value), Ok(())) => {
                let released = client.batch_execute(RELEASE).await;
                released.map(|()| value).map_err(explained)
            }
            (Ok(_), Err(error)) => Err(explained(error)),
            (Err(error), _) => Err(error.into()),
        };
        self.0.savepoints().open = None;
        match &ended {
            Ok(_) => self.0.savepoints().kept.extend(keys),
            // It is sent even if this future is dropped. If it fails too, the session is lost, and nothing can be committed.
            Err(_) => {
                forget_statements(client);
                client.batch_execute(UNDO).await?;
            }
        }
        ended
    }

    /// Lets nothing commit if a task still holds the transaction of the open savepoint, whose work has ended or was dropped:
    /// its statements would run in another message's savepoint.
    fn check_left(&self) -> Result<(), HandlerError> {
        let mut savepoints = self.0.savepoints();
        let holders = savepoints.open.as_ref().map_or(0, Arc::strong_count);
        // One is the session.
        if holders > 1 {
            savepoints.broken = Some(HELD);
            return Err(HELD.into());
        }
        Ok(())
    }
}

fn explained(error: Error) -> HandlerError {
    match error.code() {
        Some(code) if *code == SqlState::IN_FAILED_SQL_TRANSACTION => HandlerError::retry(
            "a statement of the savepoint failed and its work continued: return the error, or put a savepoint of your own \
             before statements that may fail",
        ),
        _ => error.into(),
    }
}

const HELD: &str = "a task that the work spawned still holds the transaction of its savepoint: nothing is committed; the \
                    work must wait for tasks that use it";

impl<S: Sync> FromBatch<S> for BatchTransaction {
    const TRANSACTION: bool = true;

    async fn from_batch(parts: &BatchParts<S>) -> Result<Self, HandlerError> {
        let session = parts
            .transaction()
            .map(<Arc<dyn Any + Send + Sync>>::downcast);
        match session {
            Some(Ok(session)) => Ok(Self(session)),
            Some(Err(_)) => Err(HandlerError::retry(
                "this batch's transaction is from another store: give the consumer a PostgresStore",
            )),
            None => Err(HandlerError::retry(
                "no transaction was opened for this batch: an extractor that takes it sets `FromBatch::TRANSACTION`",
            )),
        }
    }
}
