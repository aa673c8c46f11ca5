//! The procedural macros of `sqs-once`. Depend on `sqs-once`, which re-exports them.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod business_key;
mod disposition;
mod expand;
mod key;
mod options;
mod signature;

use proc_macro::TokenStream;

use crate::signature::{BATCH_HANDLER, HANDLER};

/// Creates a handler from an async function.
///
/// The function is unchanged, and other code can call it as before. The macro adds a type of the same name with two
/// functions: `handler()` returns the `Handler`, and `consumer()` a `Consumer` that runs it:
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
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
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
/// The first argument is the payload, decoded from the message's body. Extractors may follow: `State<T>`,
/// `IdempotencyToken`, `Attempt`, `Arc<Message>`, `Remaining`, `BusinessKey`, `Context`, `CorrelationId`, an envelope's
/// metadata (`SnsMeta`, `EventBridgeMeta`, `S3Object`), or a type of your own.
///
/// The function returns `Result<(), HandlerError>`, or `()` if it cannot fail. In place of the `()` inside `Result`, it
/// may return a `Completion` with a value, or `Writes` that commit with the completion of its key. For PostgreSQL, the
/// counterpart of `Writes` is the argument `Transaction` of `sqs-once-postgres`.
///
/// # Options
///
/// | option | meaning | default |
/// |---|---|---|
/// | `key = order.order_id` | identifies the event: messages with equal keys are duplicates. An expression over the payload, a `KeyExtractor`, or a tuple of both: `(order.order_id, MessageKey::attribute("tenant"))` | required |
/// | `decode = Text` | decodes the body into the payload: `Json`, `Text`, `Base64`, or a `Decode` of your own | `Json` |
/// | `envelope = (Sns, EventBridge)` | the envelopes around the payload: `Sns`, `EventBridge`, `S3`, a tuple of them, outermost first, `Auto`, or an `Envelope` of your own | none: the body is the payload |
/// | `namespace = "payments"` | separates this handler's keys from others in the table; 1 to 255 bytes, no `#`. `SQS_ONCE_NAMESPACE` overrides it | required |
/// | `fingerprint = order.amount_cents` | detects different messages with one key: an expression over the payload, like the key, or a function of it. `none` compares nothing | the whole body |
/// | `mode = record_after` | `record_after`: the key is not claimed ([`RecordAfter`]). `claim_first`: the key of a handler that returns `Writes` is claimed before it runs ([`ClaimFirst`]) | the key is claimed first; an effect that commits with the completion of its key needs no claim |
/// | `state = App` | the type of the handler's state, if no argument is a `State<App>` | the type in `State<…>`, else none |
///
/// A handler with a state takes it as an argument: `charge::handler(app)`, and `charge::consumer(app)`.
///
/// Settings of the messages are methods of [`Handler`], and settings of the batch are methods of [`Consumer`]. Some have an
/// environment variable, over which methods take precedence:
///
/// ```
/// use std::time::Duration;
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
/// }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced) {
///     println!("charging for {}", order.order_id);
/// }
///
/// let handler = charge::handler().attempt_timeout(Duration::from_secs(10));
/// let consumer = sqs_once::Consumer::new(handler).concurrency(16);
/// ```
///
/// [`Handler`]: ../sqs_once/struct.Handler.html
/// [`Consumer`]: ../sqs_once/struct.Consumer.html
/// [`RecordAfter`]: ../sqs_once/handler/struct.RecordAfter.html
/// [`ClaimFirst`]: ../sqs_once/handler/struct.ClaimFirst.html
///
/// # The key
///
/// - An expression over the payload, by the argument's name: `key = order.order_id`. If the function destructures its
///   payload, use the names of the fields: `key = order_id` for `OrderPlaced { order_id, .. }: OrderPlaced`.
/// - Several parts in a tuple: `key = (order.tenant, order.order_id)`.
/// - The payload itself, if it derives `BusinessKey`: `key = order`.
/// - A function of the payload, by its path: `key = OrderPlaced::business_key`.
/// - Any other key extractor: `key = sqs_once::key::MessageKey::attribute("order-id")`,
///   `key = sqs_once::key::MessageKey::json_pointer("/order/id")`, or several of them in a tuple.
///
/// Text, integers, `bool`, `char`, bytes and `Option`s of these can be keys. Floats cannot, since different integers
/// may convert to the same float. A message whose key is missing or empty is terminal, unless `Handler::missing_key`
/// changes that. It never runs under another key.
///
/// # Errors
///
/// The compiler reports a function that cannot be a handler, an option that is unknown, misspelt, repeated or
/// malformed, and an invalid key. Each error points to the code to change.
#[proc_macro_attribute]
pub fn handler(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::handler(HANDLER, attribute.into(), item.into()).into()
}

/// Creates a batch handler from an async function that receives all messages of a batch in one call. Use it for effects
/// that are cheaper together, such as a bulk insert.
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
///     /// Inserts all rows in one request and returns a result for each.
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
/// #[sqs_once::batch_handler(key = order.order_id, namespace = "orders")]
/// async fn insert(orders: Batch<OrderPlaced>, State(db): State<Db>) -> Result<BatchOutcome, HandlerError> {
///     let rows = db.insert(orders.payloads()).await?;      // `?` fails all messages, which are retried
///     let mut outcome = orders.outcome();                  // unreported messages fail
///     for (record, row) in orders.records().iter().zip(rows) {
///         outcome.ended(record, row);                      // or `succeeded(record)`, `failed(record, error)`
///     }
///     Ok(outcome)
/// }
///
/// async fn start() -> Result<(), Error> {
///     sqs_once::run(insert::consumer(Db)).await
/// }
/// ```
///
/// The first argument is a `Batch` of the payload. `State<T>`, `Remaining` or a `FromBatch` of your own may follow.
/// Each record provides its own values: `record.token()`, `record.attempt()`, `record.key()`, `record.message()`. The
/// function returns `Result<BatchOutcome, HandlerError>`, or `BatchOutcome` if it cannot fail as a whole:
/// `orders.all_succeeded()` reports success for all messages. In place of `BatchOutcome`, it may return `BatchWrites`:
/// the `Writes` of each message, which commit with the completion of its key. For PostgreSQL, the counterpart is the
/// argument `BatchTransaction` of `sqs-once-postgres`.
///
/// This macro takes the options of [`handler`](macro@handler). `Consumer::concurrency` does not apply, since the
/// handler runs once for each batch. `key` and `fingerprint` are computed from one message's payload. No argument names
/// that payload, so the option names it:
///
/// - `key = order.order_id`, `key = (order.tenant, order.order_id)`: the variable whose fields the expression uses is
///   the payload, whatever its name.
/// - Any other expression as a closure: `key = |order| format!("{}/{}", order.tenant, order.order_id)`, or
///   `key = |order| order` for a payload that derives `BusinessKey`.
/// - A function of the payload, by its path, or any other key extractor, as in `handler`.
///
/// # Errors
///
/// The compiler reports the errors of `handler`, a first argument that is not a `Batch`, and an extractor that needs a
/// single message.
#[proc_macro_attribute]
pub fn batch_handler(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::handler(BATCH_HANDLER, attribute.into(), item.into()).into()
}

/// Uses a payload as its own business key, by its `#[key]` fields in declaration order.
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
/// #[sqs_once::handler(key = order, namespace = "charges")]
/// async fn charge(order: OrderPlaced) {
///     println!("charging {} cents", order.amount_cents);
/// }
///
/// let order = OrderPlaced { tenant: "t".to_owned(), order_id: 7, amount_cents: 1299 };
/// assert_eq!(BusinessKey::new(&order), BusinessKey::new(&("t", 7)));
/// ```
///
/// The derive implements `sqs_once::key::KeyPart`, so the payload can also be part of a larger key. Each field must be
/// a `KeyPart`: text, an integer, `bool`, `char`, bytes, an `Option` of these, or a struct that derives `BusinessKey`.
/// Floats cannot be keys.
///
/// # Errors
///
/// The compiler reports a struct without a `#[key]` field, an enum or a union, and a field whose type cannot be a key.
#[proc_macro_derive(BusinessKey, attributes(key))]
pub fn business_key(input: TokenStream) -> TokenStream {
    business_key::derive(input.into()).into()
}

/// Lets an error type choose what happens to the message: `#[disposition(terminal)]` on a variant. The trait
/// `sqs_once::handler::ErrorDisposition` documents the attribute, with an example, and the declaration that a handler needs:
/// `.errors::<PayError>()`.
#[proc_macro_derive(ErrorDisposition, attributes(disposition))]
pub fn error_disposition(input: TokenStream) -> TokenStream {
    disposition::derive(input.into()).into()
}
