//! Running a consumer as a Lambda function.

use std::pin::Pin;

use lambda_runtime::tower::layer::layer_fn;
use lambda_runtime::{LambdaEvent, Runtime, service_fn};

use crate::batch::watchdog;
use crate::consumer::{Consumer, Runnable};
use crate::error::Error;
use crate::telemetry;

use super::event::LenientEvent;
use super::next_event::NextEvent;
use super::shutdown::Shutdown;

/// Runs the consumer as a Lambda function. Sets up logging, reads the environment, and handles events until Lambda ends
/// the process.
///
/// Handles concurrent events if Lambda sends them (Lambda Managed Instances). On `SIGTERM` or `SIGINT`, finishes and
/// answers in-flight events, and then ends the process. A second signal ends the process at once.
///
/// Requests no further event while code of a handler still runs after its deadline: see
/// [`spawn_blocking`](crate::spawn_blocking). Ends the process if such code can't keep the lease of its key. With other events in
/// flight, it first answers those.
///
/// # Errors
/// A [`ConfigError`](crate::ConfigError) that names the setting, if it is missing or invalid. The Runtime API's error,
/// if the API fails.
///
/// ```no_run
/// use sqs_once::{Error, HandlerError};
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
///     Ok(())
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), Error> {
///     sqs_once::run(charge::consumer()).await
/// }
/// ```
pub fn run(consumer: impl Runnable) -> Pin<Box<dyn Future<Output = Result<(), Error>>>> {
    // Not an `async fn`: for a consumer that can't run, the compiler would report each use of the future again.
    Box::pin(start(consumer.into_consumer()))
}

async fn start(consumer: Consumer) -> Result<(), Error> {
    telemetry::init();
    if let Err(error) = consumer.init().await {
        tracing::error!(%error, "the function can't start");
        return Err(error.into());
    }
    watchdog::turn_on();
    let shutdown = Shutdown::default();
    let next_event = layer_fn({
        let shutdown = shutdown.clone();
        #[cfg(feature = "opentelemetry")]
        let after_answer = consumer.after_each_answer();
        move |inner| NextEvent {
            inner,
            shutdown: shutdown.clone(),
            #[cfg(feature = "opentelemetry")]
            after_answer: after_answer.clone(),
        }
    });
    // Parses events record by record.
    let service = service_fn(move |event: LambdaEvent<LenientEvent>| {
        consumer.respond(event.payload, event.context)
    });
    let runtime = Runtime::new(service).layer(next_event);
    tokio::select! {
        ended = runtime.run_concurrent() => Ok(ended?),
        // Exits instead of returning, because the runtime would wait for handlers that block their thread.
        () = shutdown.requested_and_idle() => std::process::exit(0),
    }
}
