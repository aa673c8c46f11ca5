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
/// | `namespace = "payments"` | keeps this consumer's keys apart from others in the table; 1 to 255 bytes, no `#` | `SQS_ONCE_NAMESPACE`, else package and function, `payments.charge`, for a function in the root of the binary named after its package; required elsewhere |
/// | `fingerprint = order.amount_cents` | what tells two messages with one key apart: an expression over the payload, like the key, or a function of it | the whole body |
/// | `mode = record_after` | `claim_first`, `record_after` or `transactional`: see [`Mode`] | `claim_first`; `transactional` for handlers that return `Writes` or take a transaction |
/// | `state = App` | the type of the consumer's state, where no argument is a `State<App>` | the type in `State<…>`, else `()` |
///
/// Every other setting is a method of [`Consumer`], and some have an environment variable. Methods win over
/// options, and options win over the environment:
///
/// ```
/// use std::time::Duration;
///
/// #[derive(serde::Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
/// }
///
/// #[sqs_once::handler(key = order.order_id)]
/// async fn charge(order: OrderPlaced) {
///     println!("charging for {}", order.order_id);
/// }
///
/// let consumer = charge::consumer()
///     .concurrency(16)
///     .record_timeout(Duration::from_secs(10));
/// ```
///
/// [`Consumer`]: ../sqs_once/struct.Consumer.html
/// [`Mode`]: ../sqs_once/policy/enum.Mode.html
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
/// integers become one float. A record whose key is missing or empty is terminal, unless
/// `Consumer::missing_key` changes that. It never runs under another key.
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
/// It takes the options of [`handler`](macro@handler). `Consumer::concurrency` does not apply, since the handler
/// runs once for each batch. `key` and `fingerprint` are made of one record's payload, and since no argument names that, they
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
/// assert_eq!(BusinessKey::new(&order), BusinessKey::new(&("t", 7)));
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
