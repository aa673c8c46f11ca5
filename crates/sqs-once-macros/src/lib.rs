//! The macros behind `sqs_once::handler`, `sqs_once::batch_handler` and `sqs_once::BusinessKey`. Depend
//! on `sqs-once`, which exports them.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod derive;
mod expand;
mod key;
mod options;
mod signature;
mod spelling;

use proc_macro::TokenStream;

use crate::signature::Kind;

/// Makes a consumer of an async function.
///
/// The function stays as it is and can be called as before. Beside it stands a type of the same name
/// with one function, `consumer()`, which gives the `Consumer` to hand to `sqs_once::run`:
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::{Error, HandlerError, IdempotencyToken};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     amount_cents: u64,
/// }
///
/// #[sqs_once::handler(key = order.order_id)]
/// async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
///     println!("charging {} cents with the token {token}", order.amount_cents);
///     Ok(())
/// }
///
/// async fn start() -> Result<(), Error> {
///     sqs_once::run(charge::consumer()).await
/// }
/// ```
///
/// The first argument is the payload, which is read from the message's body. Any extractors follow:
/// `State<T>`, `IdempotencyToken`, `Attempt`, `MessageMeta`, `Remaining`, `Key`, `CorrelationId`, what an
/// envelope says (`SnsMeta`, `EventBridgeMeta`, `S3Object`), or a type of your own. The function returns
/// `Result<(), HandlerError>`, with a `Recorded` result in place of the `()` where there is one, or with
/// `Writes` that commit together with the record of its key, or `()` when it can't fail. A `Transaction` of
/// `sqs-once-postgres` among the arguments is PostgreSQL's counterpart of `Writes`.
///
/// # Options
///
/// | option | meaning | default |
/// |---|---|---|
/// | `key = order.order_id` | what makes two messages the same event | required |
/// | `decode = Text` | how the body becomes the payload: `Json`, `Text`, `Bytes`, or a `Decode` of your own | `Json` |
/// | `envelope = (Sns, EventBridge)` | what is wrapped around the payload: `Sns`, `EventBridge`, `S3`, a tuple of them, outermost first, `Auto`, or an `Envelope` of your own | none: the body is the payload |
/// | `correlation_id = request_id` | the record's correlation id: a function of the `Message` that gives an `Option<String>` | an attribute, else the envelope's id, else the trace |
/// | `namespace = "payments"` | keeps this consumer's keys apart from others in the table; 1 to 255 bytes, no `#` | `SQS_ONCE_NAMESPACE`, else package and function, `payments.charge`, for a function in the root of the binary named after its package; required elsewhere |
/// | `concurrency = 16` | how many records run at once, at least 1; with a transaction each, where the handler takes one | `SQS_ONCE_CONCURRENCY`, else 10 |
/// | `lease_margin = "3s"` | how long a claim outlives the function's deadline | `SQS_ONCE_LEASE_MARGIN`, else `3s` |
/// | `deadline_margin = "1s"` | how long before the function's deadline handlers are cancelled, so that the answer goes out in time; more than zero | `SQS_ONCE_DEADLINE_MARGIN`, else `1s` or a tenth of the time, whichever is less |
/// | `record_timeout = "10s"` | how long one handler may run; more than zero | until the deadline is near |
/// | `retain = "28d"` | how long a duplicate is recognised; `1s` at least | `SQS_ONCE_RETENTION`, else `28d` |
/// | `mode = record_after` | `claim_first`: claim the key, work, record. `record_after`: work, then record; concurrent duplicates may both run, so the handler must be idempotent itself. `transactional`: work, whose effect commits with its record | `claim_first`; `transactional` for handlers that return `Writes` or take a transaction, and only for these |
/// | `claim = first` | for a handler that returns `Writes`: claims the key before, so that its computation runs for one delivery at a time, and costs one more write | the key is claimed with the writes |
/// | `fingerprint = order.amount_cents` | what tells two messages with one key apart: an expression over the payload, like the key, or a function of it | the whole body |
/// | `payload_mismatch = reject` | what becomes of a message that differs: `warn`: a duplicate, with a warning; `reject`: failed; `ignore`: nothing is compared or stored | `warn` |
/// | `missing_key = retry` | what becomes of a record without a key: `terminal`; `retry`; `process_unprotected`: it runs, without a claim, on every delivery, which a handler that returns `Writes` or takes a transaction can't have | `terminal` |
/// | `key_codec = keys_of_python()` | a `KeyCodec`: under which ids the table keeps the keys, such as those of Powertools | this library's own |
/// | `key_secret = secret()` | a `KeySecret`: hashes the keys and fingerprints with it, so that readers of the table can't guess them | the secret that `SQS_ONCE_KEY_SECRET_ARN` names, else none |
/// | `also_read = keys_before()` | a `KeyCodec` or a `Namespace`: where else a key may be known, while either changes | nowhere |
/// | `readable_keys = true` | whether the table shows keys as they are; switching forgets every key | `false`: it holds hashes |
/// | `cache = 1000` | how many completed keys a process remembers, for 5 minutes each, so that their duplicates cost no request; at least 1. `cache = (1000, "1m")`: for another time | none |
/// | `requests = single` | how many keys a request to the store carries: `batched`: up to 25; `single`: one | `batched` |
/// | `in_progress = wait("5s")` | what becomes of a record whose key another worker has: `return_to_queue`, or `wait` so long at most for the other to finish | `return_to_queue` |
/// | `fifo = return_batch` | what else of a FIFO queue's batch is returned when a record fails: `return_group`: the rest of its message group; `return_batch`, or `strict`: everything not started yet | `return_group` |
/// | `raise_on_total_failure = true` | whether the invocation fails when every record of its batch did | `false` |
/// | `on_success = reply` | an async function of a `RecordEnd` that gives a `Result<(), HandlerError>`: called when a record's effect is on record | none |
/// | `on_duplicate = reply` | the same for a record whose event was handled before | none |
/// | `on_failure = alarm` | the same for a record that failed or is terminal | none |
/// | `backoff = exponential("2s", "15m")` | how long failed records stay away from the function: the floor, doubled with every delivery up to the ceiling (feature `sqs`) | until the queue's visibility timeout ends |
/// | `after_dead_letter = go_on` | what becomes of the rest of a FIFO message group when a record of it was moved to the dead-letter queue: `stop`, or `go_on` (feature `sqs`) | `stop` |
/// | `state = App` | the consumer's state, when no argument is a `State<App>` but an extractor of your own wants it | the type in `State<…>`, else `()` |
///
/// A duration is a whole number and a unit: `500ms`, `3s`, `5m`, `12h`, `28d`. What an option sets
/// wins over the environment. Each is a method of the same name on `Consumer`, which says more of it
/// (`retention` for `retain`, and the function `consumer_with` for `decode`).
///
/// # The key
///
/// - An expression over the payload, under the name it has in the function: `key = order.order_id`.
///   When the function takes its payload apart, its fields have their own names:
///   `key = order_id` for `OrderPlaced { order_id, .. }: OrderPlaced`.
/// - Several parts in a tuple: `key = (order.tenant, order.order_id)`.
/// - The payload itself, when it derives `BusinessKey`: `key = order`.
/// - A function of the payload, by its path: `key = OrderPlaced::business_key`.
/// - Any other key extractor: `key = sqs_once::key::MessageAttribute::new("order-id")`,
///   `key = sqs_once::key::JsonPointer::new("/order/id")`, or several of them in a tuple.
///
/// Text, integers, `bool`, `char`, bytes and `Option`s of these can be keys. Floats can't: different
/// integers become one float. A record whose key is missing or empty is terminal, unless `missing_key`
/// says otherwise; it never runs under another key.
///
/// # Errors
///
/// The compiler reports a function that can't be a handler, an option that is unknown, misspelt,
/// repeated or malformed, and a key that can't be one, each at the place to change.
#[proc_macro_attribute]
pub fn handler(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::handler(Kind::Handler, attribute.into(), item.into()).into()
}

/// Makes a consumer of an async function that gets all records of a batch in one call, for effects that
/// are cheaper together, such as a bulk insert.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::{Batch, BatchOutcome, Error, HandlerError, State};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     amount_cents: u64,
/// }
///
/// #[derive(Clone)]
/// struct Db;
///
/// impl Db {
///     /// Inserts all rows in one request, and says of each whether it was accepted.
///     async fn insert<'a>(
///         &self,
///         rows: impl Iterator<Item = &'a OrderPlaced>,
///     ) -> Result<Vec<Result<(), String>>, std::io::Error> {
///         Ok(rows.map(|row| match row.amount_cents {
///             0 => Err("nothing to pay".to_owned()),
///             _ => Ok(()),
///         }).collect())
///     }
/// }
///
/// #[sqs_once::batch_handler(key = order.order_id)]
/// async fn insert(orders: Batch<OrderPlaced>, State(db): State<Db>) -> Result<BatchOutcome, HandlerError> {
///     let rows = db.insert(orders.payloads()).await?;      // `?` means: all of them, later
///     let mut outcome = orders.outcome();                  // each has failed until it is said otherwise
///     for (record, row) in orders.iter().zip(rows) {
///         outcome.ended(record, row);                      // or `succeeded(record)`, `failed(record, error)`
///     }
///     Ok(outcome)
/// }
///
/// async fn start() -> Result<(), Error> {
///     sqs_once::run(insert::consumer().state(Db)).await
/// }
/// ```
///
/// The first argument is a `Batch` of the payload. `State<T>`, `Remaining` or a `FromBatch` of your own may
/// follow; what belongs to one record is asked of that record: `record.token()`, `record.attempt()`,
/// `record.key()`, `record.message()`. The function returns `Result<BatchOutcome, HandlerError>`, or
/// `BatchOutcome` when it can't fail as a whole: `orders.all_succeeded()` when all went well. `Writes` and
/// transactions of a store are for `handler` alone, where each record's effect commits with its own key.
///
/// It takes the options of [`handler`](macro@handler). `concurrency` has no meaning for the handler's one
/// call. `key` and `fingerprint` are made of one record's payload, and since no argument names that, they
/// do so themselves:
///
/// - `key = order.order_id`, `key = (order.tenant, order.order_id)`: the name that the fields are taken
///   from stands for the payload, whatever it is.
/// - Anything else in the form of a closure: `key = |order| format!("{}/{}", order.tenant, order.order_id)`,
///   or `key = |order| order` for a payload that derives `BusinessKey`.
/// - A function of the payload, by its path, and every other key extractor as in `handler`.
///
/// # Errors
///
/// The compiler reports what it reports of a `handler`, a first argument that is no `Batch`, and an
/// extractor that belongs to one record.
#[proc_macro_attribute]
pub fn batch_handler(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::handler(Kind::BatchHandler, attribute.into(), item.into()).into()
}

/// Makes a payload its own business key, by its fields marked `#[key]`, in their order.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::BusinessKey;
///
/// #[derive(Deserialize, BusinessKey)]
/// struct OrderPlaced {
///     #[key]
///     tenant: String,
///     #[key]
///     order_id: u64,
///     amount_cents: u64,
/// }
///
/// #[sqs_once::handler(key = order)]
/// async fn charge(order: OrderPlaced) {
///     println!("charging {} cents", order.amount_cents);
/// }
///
/// let order = OrderPlaced { tenant: "t".to_owned(), order_id: 7, amount_cents: 1299 };
/// assert_eq!(BusinessKey::of(&order), BusinessKey::of(&("t", 7)));
/// ```
///
/// It implements `sqs_once::key::KeyPart`, so that the payload can also be a part of a larger key. Each
/// field must be a `KeyPart` itself: text, an integer, `bool`, `char`, bytes, an `Option` of these, or a
/// struct that derives `BusinessKey`. Floats can't be keys.
///
/// # Errors
///
/// The compiler reports a struct without a `#[key]` field, an enum or a union, and a field whose type
/// can't be a key.
#[proc_macro_derive(BusinessKey, attributes(key))]
pub fn business_key(input: TokenStream) -> TokenStream {
    derive::business_key(input.into()).into()
}
