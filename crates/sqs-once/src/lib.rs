//! SQS consumers on AWS Lambda whose effects happen once.
//!
//! SQS delivers at least once, so the same business event arrives more than once. `sqs-once` takes a
//! batch, gives every record a *business key*, claims the key in DynamoDB with a conditional write,
//! runs your handler, records completion, and answers Lambda with exactly the records to retry.
//!
//! ```no_run
//! use serde::Deserialize;
//! use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt};
//!
//! #[derive(Deserialize)]
//! struct OrderPlaced { order_id: String, card: String, amount_cents: u64 }
//!
//! /// Charges the card for one order, once.
//! #[sqs_once::handler(key = order.order_id)]
//! async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
//!     let card = parse_card(&order.card).terminal()?;              // will never succeed: straight to the DLQ
//!     payments::charge(card, order.amount_cents, &token).await?;   // `?` means: retry later
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     sqs_once::run(charge::consumer()).await                      // table, namespace, DLQ: from the environment
//! }
//! # fn parse_card(card: &str) -> Result<u64, std::num::ParseIntError> { card.parse() }
//! # mod payments {
//! #     pub async fn charge(_: u64, _: u64, _: &super::IdempotencyToken) -> std::io::Result<()> { Ok(()) }
//! # }
//! ```
//!
//! # What is promised
//!
//! - *Effectively once* for effects that commit together with the record of their key: the DynamoDB writes that
//!   a handler returns as [`Writes`], and the statements of a handler that takes the `Transaction` of the crate
//!   `sqs-once-postgres`. The effect and its record are there, or neither is, whatever dies when.
//! - *At least once, deduplicated* for everything else: a record is never lost, and its effect is repeated only if
//!   the process dies between the effect and its record. For that window every handler can ask for an
//!   [`IdempotencyToken`], the same for every attempt, to pass on to whatever it calls.
//!
//! Both for as long as the record of the key is kept: [`Consumer::retention`].
//!
//! # Where to go on
//!
//! - [`Consumer`]: settings and their defaults, by code and by environment variable.
//! - [`Handler`], [`FromRecord`], [`HandlerError`]: what a handler takes and returns.
//! - [`Writes`]: DynamoDB writes that commit together with the record of their key. The crate `sqs-once-postgres`:
//!   the same for PostgreSQL.
//! - [`BatchHandler`]: all records of a batch in one call.
//! - [`KeyExtractor`], [`BusinessKey`](struct@BusinessKey): choosing a key.
//! - [`Decode`], [`Envelope`]: bodies that are not JSON, and what SNS, EventBridge and S3 wrap around them.
//! - [`Idempotency`]: the same for functions that SNS, EventBridge or an asynchronous call invokes.
//! - [`store`]: where claims live, and how to bring a store of your own.
//! - `testing` (feature `testing`): testing a consumer without AWS and without waiting.
//! - [`guide`]: pages that answer one question each, from [what is promised](guide::guarantees) and [what happens if the
//!   process dies here](guide::failure_modes) to [what a message in the log means](guide::troubleshooting).
//!
//! # Features
//!
//! None is on by default.
//!
//! - `sqs`: terminal records go straight to the dead-letter queue, and records that go back stay away as
//!   long as they should; `Outgoing` for producers. Brings SQS's client.
//! - `jmespath`: keys by JMESPath expressions.
//! - `nfc`: text keys in one Unicode form, by [`key::nfc`].
//! - `secrets`: fetches the secret of the keys' hash from AWS Secrets Manager.
//! - `powertools`: keys under the ids that Powertools for AWS Lambda gives them, to share its table.
//! - `serde_dynamo`: values of your own as items, in [`Writes::put`].
//! - `opentelemetry`: spans and metrics of every batch by OpenTelemetry's conventions, for an SDK and an exporter of
//!   your choice: [traces](guide::traces). Brings the interface only.
//! - `testing`: what a consumer's own tests need; for the dev-dependencies.
//! - `conformance`: the suite that every store passes; for stores of your own.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// DynamoDB's SDK, in the version whose types [`Writes`] and [`DynamoDbStore`] take.
#[doc(no_inline)]
pub use aws_sdk_dynamodb;

mod aws;
mod batch;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod consumer;
mod disposition;
mod error;
mod guarded;
#[cfg_attr(all(doc, not(doctest)), doc = include_str!("guide/README.md"))]
#[cfg_attr(doc, doc = include_str!("../docs/README.md"))]
#[cfg_attr(not(doc), allow(missing_docs))]
pub mod guide;
mod handler;
pub mod idempotency;
pub mod key;
mod lambda;
mod once;
#[cfg(feature = "sqs")]
mod producer;
mod random;
mod record;
#[cfg(feature = "secrets")]
mod secrets;
pub mod store;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod time;

pub use batch::{
    FifoFailure, InProgress, InvalidRecord, MissingKey, Outcome, PayloadMismatch, RecordEnd,
    Requests,
};
pub use config::ConfigError;
pub use consumer::{Consumer, consumer, consumer_with};
pub use disposition::AfterDeadLetter;
#[cfg(feature = "sqs")]
pub use disposition::Backoff;
pub use error::{Disposition, Error};
pub use handler::{
    Attempt, Batch, BatchHandler, BatchOutcome, BatchParts, BatchRecord, Done, FromBatch,
    FromRecord, Handler, HandlerError, IdempotencyToken, IntoBatchOutcome, IntoOutcome, Key,
    MessageMeta, RecordParts, Recorded, Remaining, ResultExt, State, spawn_blocking,
};
pub use idempotency::{Cache, Mode};
pub use key::{BusinessKey, KeyError};
pub use lambda::{EventError, run};
pub use once::{Idempotency, Invocation, Once, RunError};
#[cfg(feature = "sqs")]
pub use producer::{Outgoing, OutgoingError, Sendable};
pub use random::{OsRandom, Random};
#[cfg(feature = "jmespath")]
pub use record::JmesPath;
pub use record::{
    Auto, Bytes, CorrelationId, Decode, DecodeError, Envelope, EnvelopeError, EventBridge,
    EventBridgeId, EventBridgeMeta, Json, JsonPointer, KeyExtractor, Message, MessageAttribute,
    MessageGroup, MessageId, Opened, ProducerKey, S3, S3EventId, S3Object, Sns, SnsMessageId,
    SnsMeta, SystemAttribute, Text,
};
pub use sqs_once_macros::{BusinessKey, batch_handler, handler};
pub use store::{DynamoDbStore, MemoryStore, Store, Writes};
pub use telemetry::Metrics;
pub use time::{Clock, SystemClock, Timestamp};
