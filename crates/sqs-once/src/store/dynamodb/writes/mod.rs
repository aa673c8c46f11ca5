//! The writes of a handler that commit together with the completion of its key.

mod check;
mod error;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_sdk_dynamodb::types::{ConditionCheck, Delete, Put, TransactWriteItem, Update};
use serde::Serialize;

use crate::error::Disposition;
use crate::guarded::{Guarded, caught};
use crate::store::data::recordable;

pub(super) use check::Keys;
pub(crate) use error::WritesError;
pub use write::Conflict;
pub(super) use write::Write;
use write::WriteName;

type Rule = Box<dyn Fn(&Conflict) -> Disposition + Send + Sync>;

/// The DynamoDB writes that are the whole effect of a handler, or of the work of an [`Idempotency`](crate::Idempotency).
/// They commit together with the completion of the key in one `TransactWriteItems`, or nothing is written.
///
/// ```
/// use std::collections::HashMap;
///
/// use serde::Deserialize;
/// use sqs_once::sdk::dynamodb::types::{AttributeValue, Put, Update};
/// use sqs_once::policy::Disposition;
/// use sqs_once::{HandlerError, Writes};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String, article: String, pieces: u32 }
///
/// /// Reserves the ordered pieces once.
/// #[sqs_once::handler(key = order.order_id, namespace = "reservations")]
/// async fn reserve(order: OrderPlaced) -> Result<Writes, HandlerError> {
///     let text = |value: &str| AttributeValue::S(value.to_owned());
///     let pieces = AttributeValue::N(order.pieces.to_string());
///     let reservation = Put::builder()
///         .table_name("reservations")
///         .item("order_id", text(&order.order_id))
///         .item("article", text(&order.article))
///         .item("pieces", pieces.clone())
///         .build()?;
///     let stock = Update::builder()
///         .table_name("stock")
///         .key("article", text(&order.article))
///         .update_expression("SET pieces = pieces - :pieces")
///         .condition_expression("pieces >= :pieces")
///         .expression_attribute_values(":pieces", pieces)
///         .build()?;
///     Ok(Writes::new()
///         .put_item(reservation)
///         .update(stock)
///         .on_conflict(|_| Disposition::Terminal)) // not enough in stock: no retry can help
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// // Its test needs no DynamoDB: the handler only returns the writes.
/// let order = OrderPlaced { order_id: "o-1001".into(), article: "a-7".into(), pieces: 2 };
/// let writes = reserve(order).await.unwrap();
/// assert_eq!(writes.len(), 2);
/// let reservation: &HashMap<_, _> = writes.items()[0].put().unwrap().item();
/// assert_eq!(reservation["pieces"], AttributeValue::N("2".into()));
/// # }
/// ```
///
/// [`put`](Self::put) takes a value that implements `Serialize`:
/// `.put("reservations", &reservation)`. Use the SDK's types from
/// [`sqs_once::sdk::dynamodb`](crate::sdk::dynamodb), so that the versions match.
///
/// # Promise
///
/// The writes happen exactly once for a key while its completion is kept, no matter when a process dies. The completion
/// refuses a duplicate's transaction. If a request is sent again after a lost answer, DynamoDB recognises it for ten minutes
/// (`ClientRequestToken`). After that, the owner in the key's item identifies it. The handler's computation may run for each
/// delivery, unless it is [`ClaimFirst`](crate::handler::ClaimFirst). The handler should therefore have no other effects.
/// Return them as writes, for example as a message in an outbox table.
///
/// A [`HandlerFn`](crate::handler::HandlerFn) returns them, and work for [`Invocation::run`](crate::once::Invocation::run).
/// A [`BatchHandlerFn`](crate::handler::BatchHandlerFn) returns those of each message as
/// [`BatchWrites`](crate::BatchWrites).
///
/// # When a condition is not met
///
/// A duplicate stays a duplicate even if its conditions are not met, such as `attribute_not_exists(order_id)` the second
/// time. For a new key, an unmet condition fails the message: nothing is written, and [`on_conflict`](Self::on_conflict)
/// chooses what happens to it. Conflicts with other transactions and throttling are retried until the deadline is near; the
/// message then returns to the queue.
///
/// # Limits
///
/// At most 99 writes, one write for each item, and 4 MB less 4 KiB for the completion of the key. The size includes the
/// items of puts, the keys of other writes, the values of expressions, and the completion's value. The consumer checks the
/// writes before it sends anything; a mistake makes the message terminal. Only DynamoDB can detect two puts of one
/// item, and refuses them.
///
/// # What it costs
///
/// A commit costs one request, or two if a condition of the handler is not met. DynamoDB counts every write of a transaction
/// twice: 2 write units for each KiB of each item, including the completion of the key and the items of checks. A refused
/// transaction costs units too. The function's role needs `dynamodb:UpdateItem` on the store's table, and for each kind of
/// write `dynamodb:PutItem`, `dynamodb:UpdateItem`, `dynamodb:DeleteItem` or `dynamodb:ConditionCheckItem` on the tables
/// written. All tables must be in the account and region of the store's table.
#[derive(Default)]
#[must_use = "nothing is written unless the handler returns it"]
pub struct Writes {
    items: Vec<TransactWriteItem>,
    rules: Guarded<BTreeMap<usize, Rule>>,
    result: Option<Result<Arc<str>, String>>,
    /// The first mistake of a setter.
    error: Option<WritesError>,
}

impl Writes {
    /// Creates a list without writes. If the handler returns it empty, the commit only completes the key.
    pub fn new() -> Self {
        Self::default()
    }

    /// A list without writes, in builds that have the type.
    pub(crate) fn nothing() -> Option<Arc<Self>> {
        Some(Arc::default())
    }

    /// Puts an item into `table` without a condition. Its attributes are the fields of `item`. For a condition, use
    /// [`put_item`](Self::put_item). A value without fields makes the message terminal.
    pub fn put<T: Serialize>(self, table: impl Into<String>, item: &T) -> Self {
        let table = table.into();
        match serde_dynamo::to_item(item) {
            Ok(item) => {
                let put = Put::builder().table_name(table).set_item(Some(item));
                self.put_item(put.build().expect("a table and an item were given"))
            }
            Err(error) => {
                let write = WriteName::put(self.len(), table).to_string();
                self.wrong(WritesError::NotAnItem {
                    write,
                    source: Arc::new(error),
                })
            }
        }
    }

    /// Puts an item.
    pub fn put_item(self, put: Put) -> Self {
        self.with(TransactWriteItem::builder().put(put).build())
    }

    /// Updates an item.
    pub fn update(self, update: Update) -> Self {
        self.with(TransactWriteItem::builder().update(update).build())
    }

    /// Deletes an item.
    pub fn delete(self, delete: Delete) -> Self {
        self.with(TransactWriteItem::builder().delete(delete).build())
    }

    /// Writes nothing. The other writes happen only if this condition is met.
    pub fn check(self, check: ConditionCheck) -> Self {
        self.with(TransactWriteItem::builder().condition_check(check).build())
    }

    /// Chooses what happens to the message if the condition of the write before it is not met. Default:
    /// [`Disposition::Retry`].
    ///
    /// If several conditions are not met, the first one with a rule decides. A panic of the rule and
    /// `Unavailable` count as `Retry`. A second rule for a write replaces the first. A rule before all writes makes the
    /// message terminal.
    pub fn on_conflict(
        mut self,
        rule: impl Fn(&Conflict) -> Disposition + Send + Sync + 'static,
    ) -> Self {
        let Some(last) = self.len().checked_sub(1) else {
            return self.wrong(WritesError::NoWrite);
        };
        let mut rules = self.rules.take().unwrap_or_default();
        rules.insert(last, Box::new(rule));
        self.rules = Guarded::new(rules);
        self
    }

    /// Stores a value with the completion for later duplicates, as [`Completion`](crate::Completion) does.
    pub fn completion<T: Serialize>(mut self, result: &T) -> Self {
        self.result = Some(recordable(result));
        self
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no writes.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the writes in order.
    pub fn items(&self) -> &[TransactWriteItem] {
        &self.items
    }

    pub(crate) fn result(&self) -> Option<&Result<Arc<str>, String>> {
        self.result.as_ref()
    }

    pub(crate) fn check_all(&self) -> Result<(), WritesError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let recorded = self.result.as_ref().and_then(|result| result.as_ref().ok());
        check::writes(&self.all(), recorded.map_or(0, |data| data.len()))
    }

    /// Returns what a conflict means for the message, and a one-line reason.
    pub(crate) fn disposition_of(&self, conflict: &Conflict) -> (Disposition, String) {
        let rule = self.rule(conflict.index());
        match rule.map(|rule| caught(|| rule(conflict))) {
            None => (Disposition::default(), conflict.to_string()),
            // The handler has succeeded, so its services work.
            Some(Ok(Disposition::Unavailable(_))) => (Disposition::Retry, conflict.to_string()),
            Some(Ok(disposition)) => (disposition, conflict.to_string()),
            Some(Err(panic)) => (
                Disposition::default(),
                format!("{conflict}, and the rule for that {panic}"),
            ),
        }
    }

    /// Returns the conflict that decides: the first with a rule, or else the first.
    pub(super) fn decisive(&self, conflicts: Vec<Conflict>) -> Option<Conflict> {
        let has_rule = |conflict: &Conflict| self.rule(conflict.index()).is_some();
        let at = conflicts.iter().position(has_rule).unwrap_or_default();
        conflicts.into_iter().nth(at)
    }

    /// Returns the decisive conflict if the conditions of the writes with these indices are not met.
    #[cfg(feature = "testing")]
    pub(crate) fn conflict(&self, unmet: &[usize]) -> Option<Conflict> {
        let unmet = self
            .all()
            .into_iter()
            .filter(|write| unmet.contains(&write.index));
        let unmet = unmet.map(|write| Conflict::new(write.name(), None));
        self.decisive(unmet.collect())
    }

    /// Returns the values of the writes that DynamoDB may quote in errors.
    pub(super) fn texts(&self) -> Vec<&str> {
        self.all().iter().flat_map(Write::texts).collect()
    }

    /// Returns their size in a transaction, including the completion of the key, in bytes.
    pub(super) fn size(&self) -> usize {
        let recorded = self.result.as_ref().and_then(|result| result.as_ref().ok());
        check::size(&self.all()) + recorded.map_or(0, |data| data.len()) + check::RECORD_BYTES
    }

    pub(super) fn all(&self) -> Vec<Write<'_>> {
        let items = self.items.iter().enumerate();
        items
            .filter_map(|(index, item)| Write::of(index, item))
            .collect()
    }

    fn rule(&self, index: usize) -> Option<&Rule> {
        self.rules.get_ref()?.get(&index)
    }

    fn wrong(mut self, error: WritesError) -> Self {
        self.error.get_or_insert(error);
        self
    }

    fn with(mut self, item: TransactWriteItem) -> Self {
        self.items.push(item);
        self
    }
}

/// Shows the kind and the table of each write, and omits their contents.
impl fmt::Debug for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = self.all().into_iter().map(|write| write.name().to_string());
        let rules = self.rules.get_ref().into_iter().flat_map(BTreeMap::keys);
        f.debug_struct("Writes")
            .field("writes", &writes.collect::<Vec<_>>())
            .field("on_conflict", &rules.collect::<Vec<_>>())
            .field("recording", &self.result.is_some())
            .finish()
    }
}
