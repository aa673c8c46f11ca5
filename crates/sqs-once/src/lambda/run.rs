//! Running a consumer as a Lambda function.

use futures_util::future::LocalBoxFuture;
use lambda_runtime::Runtime;

use crate::consumer::{Consumer, Runnable};
use crate::error::Error;
use crate::telemetry;

#[cfg(feature = "opentelemetry")]
use super::after_answer::Afterwards;
use super::next_event::NextEvent;
use super::service::Lenient;
use super::shutdown::Shutdown;

/// Runs the consumer as a Lambda function: sets up logging, reads the environment, and handles events
/// until Lambda ends the process.
///
/// Several events at a time are handled where Lambda sends them (Lambda Managed Instances). On
/// `SIGTERM` or `SIGINT` the events at hand are finished and answered, and the process ends; a second
/// signal ends it at once.
///
/// While code of a handler still runs after its deadline, the function asks for no further event: see
/// [`spawn_blocking`](crate::spawn_blocking).
///
/// # Errors
/// A [`ConfigError`](crate::ConfigError) that names the variable, when the environment lacks something or has it wrong; the
/// Runtime API's error, when that fails.
///
/// ```no_run
/// use sqs_once::{Error, HandlerError};
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id)]
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
///     Ok(())
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     sqs_once::run(charge::consumer()).await
/// }
/// ```
pub fn run(consumer: impl Runnable) -> LocalBoxFuture<'static, Result<(), Error>> {
    // No `async fn`: where the consumer can't run, each use of its future would be an error again.
    Box::pin(start(consumer.into_consumer()))
}

async fn start(consumer: Consumer) -> Result<(), Error> {
    telemetry::init();
    if let Err(error) = consumer.init().await {
        tracing::error!(%error, "the function can't start");
        return Err(error.into());
    }
    let shutdown = Shutdown::default();
    #[cfg(feature = "opentelemetry")]
    let afterwards = Afterwards(consumer.after_each_answer());
    let runtime = Runtime::new(Lenient(consumer));
    #[cfg(feature = "opentelemetry")]
    let runtime = runtime.layer(afterwards);
    let runtime = runtime.layer(NextEvent).layer(shutdown.layer());
    tokio::select! {
        ended = runtime.run_concurrent() => Ok(ended?),
        // Not by returning: the runtime would wait for handlers that block their thread.
        () = shutdown.requested_and_idle() => std::process::exit(0),
    }
}
