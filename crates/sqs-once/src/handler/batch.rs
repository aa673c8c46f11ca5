//! The records of a batch handler's call, and the outcome that it returns.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::guarded::Guarded;
use crate::record::Message;

use super::{
    Attempt, Done, FromRecord, HandlerError, IdempotencyToken, IntoOutcome, Key, RecordParts,
};

/// The records that a [`BatchHandler`](crate::handler::BatchHandler) receives in one call: the claimed records of the
/// Lambda batch, in the batch's order. Never empty. Dereferences to a slice of [`BatchRecord`]s, so `len`, `iter` and
/// `chunks` work.
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
///     for (record, row) in orders.iter().zip(inserted) {
///         outcome.ended(record, row);
///     }
///     Ok(outcome)
/// }
///
/// let consumer = sqs_once::consumer::<OrderPlaced>()
///     .key(|order: &OrderPlaced| order.order_id.clone())
///     .batch_handler(insert);
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

    /// Returns the payloads, in the batch's order.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = &T> {
        self.records.iter().map(BatchRecord::payload)
    }

    /// Creates an outcome to fill in: every record counts as failed until it is reported as succeeded.
    pub fn outcome(&self) -> BatchOutcome {
        self.outcome_of(|| None)
    }

    /// Returns the outcome of a batch in which every record succeeded.
    pub fn all_succeeded(&self) -> BatchOutcome {
        self.outcome_of(|| Some(Ok(Done::default())))
    }

    fn outcome_of(&self, result: fn() -> Option<Result<Done, HandlerError>>) -> BatchOutcome {
        BatchOutcome {
            identity: self.identity(),
            results: self.records.iter().map(|_| result()).collect(),
        }
    }
}

impl<T> Deref for Batch<T> {
    type Target = [BatchRecord<T>];

    fn deref(&self) -> &[BatchRecord<T>] {
        &self.records
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

/// One record of a [`Batch`].
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

    /// Returns the payload by value.
    pub fn into_payload(self) -> T {
        self.payload
    }

    /// The message.
    pub fn message(&self) -> &Message {
        self.parts.message()
    }

    /// The business key.
    pub fn key(&self) -> Key {
        Key::of(&self.parts)
    }

    /// The token that is the same for every attempt at this record's event.
    pub fn token(&self) -> IdempotencyToken {
        IdempotencyToken::of(&self.parts.namespace, &self.parts.key)
    }

    /// The delivery count, and the fencing token of this record's claim.
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

/// The outcome of each record of a [`Batch`]. [`Batch::outcome`] and [`Batch::all_succeeded`] create it.
///
/// Unreported records fail. If a record is reported more than once, its first failure counts, even after a success.
/// Reports about records of another batch are ignored. A handler that returns the outcome of another batch fails all of
/// its records.
#[derive(Debug)]
#[must_use = "a batch handler returns its outcome"]
pub struct BatchOutcome {
    identity: Identity,
    results: Vec<Option<Result<Done, HandlerError>>>,
}

impl BatchOutcome {
    /// Reports that the record's effect is done.
    pub fn succeeded<T>(&mut self, record: &BatchRecord<T>) {
        self.ended(record, ());
    }

    /// Reports a failure: the record returns to the queue, or goes to the dead-letter queue if the error is terminal.
    pub fn failed<T>(&mut self, record: &BatchRecord<T>, error: impl Into<HandlerError>) {
        self.ended(record, Err::<(), _>(error));
    }

    /// Reports a result as a handler of a single record would return it: `()`, a [`Recorded`](crate::Recorded) result,
    /// or a `Result` of these.
    pub fn ended<T>(&mut self, record: &BatchRecord<T>, result: impl IntoOutcome) {
        if !Arc::ptr_eq(&self.identity, &record.identity) {
            return;
        }
        let entry = &mut self.results[record.index];
        if !matches!(entry, Some(Err(_))) {
            *entry = Some(result.into_outcome());
        }
    }

    /// Returns each record's result, in the order of the batch with this identity.
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
