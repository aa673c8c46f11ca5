//! SQS consumers for AWS Lambda that recognise the copies of a business event.
//!
//! SQS delivers at least once, so the same business event arrives more than once. `sqs-once` takes a batch, gives every
//! message a *business key*, claims the key in DynamoDB with a conditional write, runs your handler, completes the key, and
//! answers Lambda with exactly the messages to retry.
//!
//! ```no_run
//! use serde::Deserialize;
//! use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt};
//!
//! #[derive(Deserialize)]
//! struct OrderPlaced { order_id: String, card: String, amount_cents: u64 }
//!
//! /// Charges the card for one order, once.
//! #[sqs_once::handler(key = order.order_id, namespace = "charges")]
//! async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
//!     let card = parse_card(&order.card).terminal()?;              // will never succeed: straight to the DLQ
//!     payments::charge(card, order.amount_cents, &token).await?;   // `?` means: retry later
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Error> {
//!     sqs_once::run(charge::consumer()).await                      // table and DLQ: from the environment
//! }
//! # fn parse_card(card: &str) -> Result<u64, std::num::ParseIntError> { card.parse() }
//! # mod payments {
//! #     pub async fn charge(_: u64, _: u64, _: &super::IdempotencyToken) -> std::io::Result<()> { Ok(()) }
//! # }
//! ```
//!
//! # Guarantees
//!
//! - *Effectively once* for effects that commit in one transaction with the completion of their key: the DynamoDB writes
//!   that a handler returns as [`Writes`] or [`BatchWrites`], and the statements of a handler that takes the
//!   `Transaction` or `BatchTransaction` of the crate `sqs-once-postgres`.
//! - *At least once, deduplicated* for every other effect. No message is lost. The effect repeats only if the attempt
//!   [dies](guide::guarantees) between the effect and its completion. For that window the handler can take an
//!   [`IdempotencyToken`], which is the same for every attempt, and pass it to the service that it calls.
//!
//! Both promises hold for as long as the completion is kept: see [`Handler::retention`].
//!
//! # Modules
//!
//! The crate root holds what most handlers use. The rest is in modules:
//!
//! - [`Handler`], [`Consumer`] and the module [`consumer`]: every setting with its default and its environment variable.
//! - [`Router`]: several handlers, for several kinds of messages in one queue.
//! - [`handler`](mod@handler): the traits behind handlers, and what they may return.
//! - [`extract`]: what handlers, layers and hooks may take as arguments, such as the message's metadata.
//! - [`key`]: business keys, and extractors that take them from a message.
//! - [`body`]: decoders for bodies that are not JSON, the envelopes of SNS, EventBridge and S3, and bodies in S3.
//! - [`policy`]: values that choose what happens to a message.
//! - [`telemetry`]: metrics and outcomes.
//! - [`store`]: where claims are kept, and how to write a store.
//! - [`producer`]: sending messages with their key.
//! - `testing` (feature `testing`): testing a consumer without AWS and without waiting.
//! - [`guide`]: a page for each topic, from [the promises](guide::guarantees) to
//!   [the messages in the log](guide::troubleshooting).
//!
//! [`Idempotency`] does the same, with the same guarantees, for functions that SNS, EventBridge or an asynchronous call
//! invokes.
//!
//! # Features
//!
//! `dynamodb` and `sqs` are on by default, the others are not.
//!
//! - `dynamodb`: [`DynamoDbStore`], the store where no other is set, and [`Writes`]. A function that keeps its claims in
//!   PostgreSQL turns it off with `default-features = false`, and does not compile the SDK of DynamoDB.
//! - `sqs`: sends terminal messages to the dead-letter queue at once, sets visibility timeouts
//!   ([`retry_after`](ResultExt::retry_after), [`backoff`](Handler::backoff), [`depends_on`](Handler::depends_on)), and
//!   adds the module [`producer`]. Compiles the SDK of SQS. The client is created at its first use.
//! - `s3`: fetches bodies that are too large for SQS from S3: `body::LargeMessages`. Compiles the SDK of S3.
//! - `step-functions`, `durable-functions`: handlers that start an execution, once: `executions`. Each compiles the SDK of
//!   its service.
//! - `jmespath`: keys by JMESPath expressions.
//! - `secrets`: fetches the secret of the keys' hash from AWS Secrets Manager.
//! - `powertools`: computes the ids of Powertools for AWS Lambda, to share its table.
//! - `opentelemetry`: spans and metrics that follow OpenTelemetry's conventions ([traces](guide::traces)). Adds the API
//!   crate only; the program chooses SDK and exporter.
//! - `testing`: the test kit, for dev-dependencies.
//! - `conformance`: the suite of tests that every store must pass. Enables `dynamodb`.
//! - `unstable`: what the tools of this library need. Any release may change it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(any(
    feature = "durable-functions",
    feature = "dynamodb",
    feature = "s3",
    feature = "secrets",
    feature = "sqs",
    feature = "step-functions"
))]
mod aws;
mod batch;
pub mod body;
mod breaker;
mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod consumer;
mod env;
mod error;
#[cfg(any(feature = "durable-functions", feature = "step-functions"))]
pub mod executions;
pub mod extract;
mod failed;
mod guarded;
#[cfg_attr(all(doc, not(doctest)), doc = include_str!("guide/links.md"))]
#[cfg_attr(doc, doc = include_str!("../docs/README.md"))]
#[cfg_attr(not(doc), allow(missing_docs))]
pub mod guide;
pub mod handler;
#[cfg_attr(
    not(feature = "unstable"),
    allow(unreachable_pub, reason = "the tools reach it through `unstable`")
)]
mod idempotency;
pub mod key;
mod lambda;
mod large_messages;
pub mod once;
pub mod policy;
#[cfg(feature = "sqs")]
pub mod producer;
#[cfg_attr(
    not(feature = "unstable"),
    allow(unreachable_pub, reason = "the tools reach it through `unstable`")
)]
mod random;
mod record;
mod report;
mod router;
#[cfg(any(
    feature = "durable-functions",
    feature = "dynamodb",
    feature = "s3",
    feature = "sqs",
    feature = "step-functions"
))]
pub mod sdk;
#[cfg(feature = "secrets")]
mod secrets;
pub mod store;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg_attr(
    not(feature = "unstable"),
    allow(unreachable_pub, reason = "the tools reach it through `unstable`")
)]
mod time;
#[cfg(feature = "unstable")]
pub mod unstable;
mod variables;

/// What the output of the macros and the library's other crates call. Any release may change it.
#[doc(hidden)]
pub mod __private {
    pub use crate::consumer::for_macros::{
        DeclaresError, DeclaresNothing, Returned, batch_handler, fingerprint, fingerprint_with,
        handler, mode_of, mode_of_batch,
    };
    #[cfg(feature = "sqs")]
    pub use crate::error::retry_after;
}

pub use consumer::builder::Consumer;
pub use consumer::handler::{BatchHandler, Handler};
pub use consumer::routes::Router;
pub use error::{ConfigError, ConfigErrorKind, Error};
#[cfg(feature = "dynamodb")]
pub use handler::batch::BatchWrites;
pub use handler::batch::{Batch, BatchOutcome};
pub use handler::blocking::spawn_blocking;
pub use handler::error::{HandlerError, ResultExt};
pub use handler::extract::{IdempotencyToken, State};
pub use handler::outcome::Completion;
pub use key::business_key::BusinessKey;
pub use lambda::run::run;
pub use once::builder::Idempotency;
pub use sqs_once_macros::{BusinessKey, batch_handler, handler};
#[cfg(feature = "dynamodb")]
pub use store::dynamodb::{DynamoDbStore, Writes};
