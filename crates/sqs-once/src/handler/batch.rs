//! The messages of a batch handler's call, and what the handler returns for them.

use std::fmt;
use std::sync::Arc;

use crate::guarded::Guarded;
use crate::key::{BusinessKey, ItemId};
use crate::record::Message;
#[cfg(feature = "dynamodb")]
use crate::store::Writes;

use super::{Attempt, Done, FromRecord, HandlerError, IdempotencyToken, IntoOutcome, RecordParts};

/// The messages that a [`BatchHandlerFn`](crate::handler::BatchHandlerFn) receives in one call: those of the Lambda batch
/// whose keys are claimed, as [`BatchRecord`]s in the batch's order. Never empty.
///
/// ```
/// use sqs_once::{Batch, BatchOutcome, HandlerError};
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
/// # mod db {
/// #     pub async fn insert<'a>(rows: impl Iterator<Item = &'a str>) -> std::io::Result<Vec<Result<(), String>>> {
/// #         Ok(rows.map(|_| Ok(())).collect())
/// #     }
/// # }
///
/// async fn insert(orders: Batch<OrderPlaced>) -> Result<BatchOutcome, HandlerError> {
///     let rows = orders.payloads().map(|order| order.order_id.as_str());
///     let inserted = db::insert(rows).await?;          // `?` means: retry all of them
///     let mut outcome = orders.outcome();
///     for (record, row) in orders.records().iter().zip(inserted) {
///         outcome.ended(record, row);
///     }
///     Ok(outcome)
/// }
///
/// let handler = sqs_once::Handler::json::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .call_batch(insert);
/// ```
pub struct Batch<T> {
    identity: Identity,
    records: Vec<BatchRecord<T>>,
}

/// Distinguishes a batch from every other, while a handler holds it.
pub(super) type Identity = Arc<()>;

impl<T> Batch<T> {
    pub(super) fn new(records: Vec<(T, RecordParts<()>)>) -> Self {
        let identity = Identity::default();
        let records = records.into_iter().enumerate();
        let records = records.map(|(index, (payload, parts))| BatchRecord {
            identity: Arc::clone(&identity),
            index,
            payload,
            parts,
        });
        Self {
            records: records.collect(),
            identity,
        }
    }

    pub(super) fn identity(&self) -> Identity {
        Arc::clone(&self.identity)
    }

    /// Returns the records, in the batch's order.
    pub fn records(&self) -> &[BatchRecord<T>] {
        &self.records
    }

    /// Returns the payloads, in the batch's order.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = &T> {
        self.records.iter().map(BatchRecord::payload)
    }

    /// Creates a [`BatchOutcome`] to fill in: every message counts as failed until it is reported as succeeded.
    pub fn outcome(&self) -> BatchOutcome {
        self.outcome_of(|| None)
    }

    /// Returns the [`BatchOutcome`] of a batch in which every message succeeded.
    pub fn all_succeeded(&self) -> BatchOutcome {
        self.outcome_of(|| Some(Ok(Done::default())))
    }

    /// Creates [`BatchWrites`] to fill in: every message counts as failed until it is reported with its writes.
    #[cfg(feature = "dynamodb")]
    pub fn writes(&self) -> BatchWrites {
        BatchWrites(self.outcome())
    }

    fn outcome_of(&self, result: fn() -> Option<Result<Done, HandlerError>>) -> BatchOutcome {
        BatchOutcome {
            identity: self.identity(),
            results: self.records.iter().map(|_| result()).collect(),
        }
    }
}

impl<T> IntoIterator for Batch<T> {
    type Item = BatchRecord<T>;
    type IntoIter = std::vec::IntoIter<BatchRecord<T>>;

    fn into_iter(mut self) -> Self::IntoIter {
        std::mem::take(&mut self.records).into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Batch<T> {
    type Item = &'a BatchRecord<T>;
    type IntoIter = std::slice::Iter<'a, BatchRecord<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}

/// Drops the payloads one by one, because two panics during one drop would abort the process.
impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        self.records.drain(..).map(Guarded::new).for_each(drop);
    }
}

impl<T> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.records).finish()
    }
}

/// One record of a [`Batch`]: a message with its payload and its key.
pub struct BatchRecord<T> {
    identity: Identity,
    index: usize,
    payload: T,
    parts: RecordParts<()>,
}

impl<T> BatchRecord<T> {
    /// The payload.
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// Returns the payload by value, and the record without it, to report the message's result.
    pub fn into_parts(self) -> (T, BatchRecord<()>) {
        let record = BatchRecord {
            identity: self.identity,
            index: self.index,
            payload: (),
            parts: self.parts,
        };
        (self.payload, record)
    }

    /// The message.
    pub fn message(&self) -> &Message {
        self.parts.message()
    }

    /// The business key.
    pub fn key(&self) -> &BusinessKey {
        self.parts.key()
    }

    /// The id of the key's item in the table.
    pub fn item_id(&self) -> &ItemId {
        self.parts.item_id()
    }

    /// The token that is the same for every attempt at this message's event.
    pub fn token(&self) -> IdempotencyToken {
        IdempotencyToken::of(&self.parts.namespace, &self.parts.key)
    }

    /// The delivery count, and the fencing token of this message's claim.
    pub fn attempt(&self) -> Attempt {
        Attempt::of(&self.parts)
    }

    /// Runs any extractor that needs no state.
    ///
    /// # Errors
    /// The extractor's own error.
    pub fn extract<E: FromRecord<()>>(
        &self,
    ) -> impl Future<Output = Result<E, HandlerError>> + Send {
        E::from_record(&self.parts)
    }
}

/// Shows the message id only: the payload does not belong in logs.
impl<T> fmt::Debug for BatchRecord<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchRecord")
            .field("message", self.message())
            .finish_non_exhaustive()
    }
}

/// Writes in a type of the handler's own, whose messages would commit in any order.
const HIDDEN_WRITES: &str =
    "a batch handler reported `Writes` in a `BatchOutcome`: report them in `BatchWrites`";

/// The result of each message of a [`Batch`]. [`Batch::outcome`] and [`Batch::all_succeeded`] create it.
///
/// Unreported messages fail. If a message is reported more than once, its first failure counts, even after a success.
/// Reports about messages of another batch are ignored. A handler that returns the `BatchOutcome` of another batch
/// fails all of its messages.
#[derive(Debug)]
#[must_use = "a batch handler returns its outcome"]
pub struct BatchOutcome {
    identity: Identity,
    results: Vec<Option<Result<Done, HandlerError>>>,
}

impl BatchOutcome {
    /// Reports that the message's effect is done.
    pub fn succeeded<T>(&mut self, record: &BatchRecord<T>) {
        self.end(record, Ok(Done::default()));
    }

    /// Reports a failure: the message returns to the queue, or goes to the dead-letter queue if the error is terminal.
    pub fn failed<T>(&mut self, record: &BatchRecord<T>, error: impl Into<HandlerError>) {
        self.end(record, Err(error.into()));
    }

    /// Reports a result as a handler of a single message would return it: `()`, a [`Completion`](crate::Completion),
    /// or a `Result` of these. [`Writes`](crate::Writes) don't compile here, because they need the order of
    /// [`BatchWrites`](crate::BatchWrites). Those in a type of your own fail their message.
    ///
    /// ```compile_fail
    /// # fn end(orders: &sqs_once::Batch<String>, outcome: &mut sqs_once::BatchOutcome) {
    /// outcome.ended(&orders.records()[0], sqs_once::Writes::new());
    /// # }
    /// # fn main() { let _: fn(&_, &mut _) = end; }
    /// ```
    pub fn ended<T, R: IntoOutcome>(&mut self, record: &BatchRecord<T>, result: R) {
        const {
            assert!(
                !R::WRITES,
                "writes of a batch handler are reported with `orders.writes()`, which returns `BatchWrites`"
            );
            assert!(
                !R::STARTS,
                "only a handler of single messages starts executions"
            );
        }
        let ended = result.into_outcome();
        self.end(
            record,
            match ended {
                Ok(Done {
                    writes: Some(_), ..
                }) => Err(HandlerError::terminal(HIDDEN_WRITES)),
                ended => ended,
            },
        );
    }

    fn end<T>(&mut self, record: &BatchRecord<T>, result: Result<Done, HandlerError>) {
        if !Arc::ptr_eq(&self.identity, &record.identity) {
            return;
        }
        let entry = &mut self.results[record.index];
        if !matches!(entry, Some(Err(_))) {
            *entry = Some(result);
        }
    }

    /// Returns each message's result, in the order of the batch with this identity.
    pub(super) fn into_results(
        self,
        of: &Identity,
    ) -> Result<Vec<Result<Done, HandlerError>>, HandlerError> {
        if !Arc::ptr_eq(&self.identity, of) {
            return Err("the batch handler returned the outcome of another batch".into());
        }
        let unsaid = || Err("the batch handler did not say that it succeeded".into());
        let results = self.results.into_iter();
        Ok(results
            .map(|result| result.unwrap_or_else(unsaid))
            .collect())
    }
}

/// The [`Writes`] of each message of a [`Batch`]. [`Batch::writes`] creates it.
///
/// The writes of a message commit with the completion of its key, or neither is written. The consumer sends as many
/// messages in one `TransactWriteItems` as fit in its 100 items and 4 MB. A message takes one item for its key, and one for
/// each of its writes.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::sdk::dynamodb::types::{AttributeValue, Put};
/// use sqs_once::{Batch, BatchWrites, HandlerError, Writes};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// /// Keeps each order once.
/// #[sqs_once::batch_handler(key = order.order_id, namespace = "orders")]
/// async fn keep(orders: Batch<OrderPlaced>) -> Result<BatchWrites, HandlerError> {
///     let mut writes = orders.writes();
///     for order in &orders {
///         let id = AttributeValue::S(order.payload().order_id.clone());
///         let put = Put::builder().table_name("orders").item("order_id", id).build()?;
///         writes.succeeded(order, Writes::new().put_item(put));
///     }
///     Ok(writes)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use serde_json::json;
/// # use sqs_once::testing::{Bench, Event};
/// let bench = Bench::new(keep::consumer());
/// let orders = [json!({ "order_id": "o-1" }), json!({ "order_id": "o-2" })];
/// bench.run(Event::new(&orders)).await.assert_processed("m-1").assert_processed("m-2");
/// assert_eq!(bench.store().writes().len(), 2);
/// # }
/// ```
///
/// # Promise
///
/// *Effectively once* for each message: see [`Writes`]. Messages are independent of each other. If a condition, a size or a
/// duplicate refuses one message, DynamoDB cancels the transaction. That message is decided alone, and the others are sent
/// again without it. Two messages that write the same item go to different transactions. In a standard queue the later one
/// may commit first.
///
/// The writes of a FIFO message group commit one after the other, beside those of other groups. The first message that
/// fails or is refused returns the rest of its group to the queue, uncommitted.
///
/// # What it costs
///
/// The same write units as one transaction for each message, and far fewer requests. A cancelled transaction costs the
/// units of all its messages once more. If many deliveries are duplicates, set
/// [`ClaimFirst`](crate::handler::ClaimFirst): duplicates then end before the call.
///
/// Unreported messages fail, as in a [`BatchOutcome`].
#[cfg(feature = "dynamodb")]
#[derive(Debug)]
#[must_use = "nothing is written unless the batch handler returns it"]
pub struct BatchWrites(pub(super) BatchOutcome);

#[cfg(feature = "dynamodb")]
impl BatchWrites {
    /// Reports that these writes are the message's whole effect.
    pub fn succeeded<T>(&mut self, record: &BatchRecord<T>, writes: Writes) {
        self.0.end(record, writes.into_outcome());
    }

    /// Reports a failure: the message returns to the queue, or goes to the dead-letter queue if the error is terminal.
    pub fn failed<T>(&mut self, record: &BatchRecord<T>, error: impl Into<HandlerError>) {
        self.0.failed(record, error);
    }

    /// Reports the writes of a message, or its failure.
    pub fn ended<T, E: Into<HandlerError>>(
        &mut self,
        record: &BatchRecord<T>,
        result: Result<Writes, E>,
    ) {
        self.0.end(record, result.into_outcome());
    }
}
