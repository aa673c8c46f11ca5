//! AWS on one machine, for developing and testing Lambda functions that consume SQS.
//!
//! The function runs as the unmodified binary that is deployed. Its process finds a real Lambda Runtime API and a real
//! DynamoDB endpoint on loopback, through the variables that Lambda and the AWS SDKs read.
//!
//! | part | purpose |
//! |---|---|
//! | [`RuntimeApi`] | the Lambda Runtime API (and as much of the Extensions API as a runtime needs) |
//! | [`LocalDynamoDb`] | an embedded DynamoDB, in memory or persisted in one file |
//! | [`LocalS3`] | a folder, served as S3 |
//! | [`LocalExecutions`] | Step Functions and durable functions, as far as a consumer starts executions |
//! | [`Queues`], [`LocalSqs`] | queues with visibility, redrive and message groups; SQS for the SDKs and the AWS CLI |
//! | [`EventSourceMapping`] | polls a queue for the function and applies its answers |
//! | [`Poller`], [`Faults`] | the same in real time, with execution environments and injected faults |
//! | [`Launch`], [`Function`] | the function's process: environment, log lines, exit status |
//! | [`LocalEvent`], [`Observer`] | live events of messages and of the function |
//! | [`Story`], [`Page`] | keeps these events, and shows them on a web page or in a file |
//! | [`Event`] | an SQS event made of an event, a message, a bare body or JSON Lines |
//! | [`Template`] | reads the table, the queues and the function from `template.yaml` |
//! | [`BatchResponse`], [`Report`] | how Lambda interprets an answer, and the outcome of each message |
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use sqs_once_local::{BatchResponse, Event, Launch, LocalDynamoDb, TableDescription};
//! use std::time::Duration;
//!
//! let dynamodb = LocalDynamoDb::memory().await?;
//! let table = TableDescription::default();
//! dynamodb.create_table(&table)?;
//!
//! let function = Launch::new("target/debug/orders")
//!     .dynamodb(&dynamodb)
//!     .env("SQS_ONCE_TABLE", &table.name)
//!     .start()
//!     .await?;
//! let event = Event::parse(r#"{"order_id": "o-1"}"#, "orders")?;
//! let answer = function.invoke(event.payload(), Duration::from_secs(30)).await?;
//! let response = BatchResponse::parse(&answer, event.message_ids())?;
//! assert!(response.failures().is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Everything listens on 127.0.0.1 only and refuses requests from web pages. A server accepts requests whose `Host` is
//! `localhost` or a loopback address, and whose `Origin` and `Sec-Fetch-Site` are absent or its own. No answer has a
//! CORS header. A server keeps 256 connections at a time, and closes one that sends no request within 10 s.
//!
//! [`Launch`] points the function's SDKs at a closed loopback port for every service that is not emulated, so that the
//! function can't reach AWS by accident.

mod dev;
mod dynamodb;
mod environment;
mod event;
mod executions;
mod function;
mod guard;
mod launch;
mod local_event;
mod log;
mod message;
mod page;
mod queue;
mod references;
mod report;
mod response;
mod runtime_api;
mod s3;
mod table;
mod template;

pub use dev::{
    FaultControls, Faults, Percent, PercentError, Poller, PollerControls, PollerError,
    PollerSettings,
};
pub use dynamodb::{DynamoDbError, LocalDynamoDb};
pub use event::{Event, EventError};
pub use executions::{Execution, LocalExecutions};
pub use function::{Function, StartError};
pub use launch::Launch;
pub use local_event::{Answer, LocalEvent, Observer};
pub use log::{OUTCOMES, RecordLine};
pub use message::{NewMessage, Received};
pub use page::{Limits, Page, PageControls, PageError, Story};
pub use queue::{
    Batch, Counts, EventSourceMapping, LocalQueue, LocalSqs, QueueError, QueueSettings, Queues,
    Redrive, Settled, Source,
};
pub use report::Report;
pub use response::{BatchResponse, ResponseError};
pub use runtime_api::{FunctionError, InvokeError, RuntimeApi};
pub use s3::LocalS3;
pub use table::{KeyAttribute, KeyType, TableDescription};
pub use template::{Template, TemplateError};

/// The region of all local resources.
pub const REGION: &str = "eu-central-1";

/// The account of all local resources.
pub const ACCOUNT_ID: &str = "123456789012";

/// Locks a mutex. A panic of another holder leaves at most one change partly done, which the local AWS accepts.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn millis(time: std::time::SystemTime) -> u64 {
    let since = time.duration_since(std::time::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
