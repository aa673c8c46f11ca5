//! A function that follows the instructions in its event. The tests of this crate run it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is what is tested"
)]

use lambda_runtime::tower::util::MapFutureLayer;
use lambda_runtime::{Error, LambdaEvent, Runtime, service_fn};
use serde::Deserialize;
use serde_json::{Value, json};
use std::future::pending;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A body with a step for its whole batch. Once the message has been received more than `until` times, it succeeds.
#[derive(Deserialize)]
struct Body {
    step: Step,
    until: u32,
}

/// A step is `{"answer": …}`, `"hang"` and so on.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// Answer with this value.
    Answer(Value),
    /// Answer with the values of these environment variables.
    Environment(Vec<String>),
    /// Write these lines to standard output, then answer with nothing.
    Print(Vec<String>),
    /// Answer with an error of this message.
    Fail(String),
    /// Write this to standard error and end with this status.
    Exit(String, i32),
    /// Die of a signal.
    Abort,
    /// Never answer.
    Hang,
    /// Answer with nothing, and never ask for the next event.
    Linger,
    /// Wait until a file exists at this path, then answer with nothing.
    WaitFor(PathBuf),
}

static LINGERS: AtomicBool = AtomicBool::new(false);

/// An event is a step, or an SQS event whose bodies may contain steps.
async fn handle(event: LambdaEvent<Value>) -> Result<Value, Error> {
    let Some(records) = event.payload["Records"].as_array() else {
        return step(serde_json::from_value(event.payload)?).await;
    };
    for record in records {
        let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let count: u32 = text(&record["attributes"]["ApproximateReceiveCount"]).parse()?;
        match serde_json::from_str::<Body>(&text(&record["body"])) {
            Ok(body) if count <= body.until => {
                println!("process {}", std::process::id());
                return step(body.step).await;
            }
            _ => println!(
                "{}",
                json!({
                    "target": "sqs_once::record", "outcome": "processed", "message_id": record["messageId"],
                    "receive_count": count,
                })
            ),
        }
    }
    Ok(json!({"batchItemFailures": []}))
}

async fn step(step: Step) -> Result<Value, Error> {
    match step {
        Step::Answer(answer) => return Ok(answer),
        Step::Environment(names) => {
            let values = names.into_iter().map(|name| {
                let value = std::env::var(&name).ok();
                (name, json!(value))
            });
            return Ok(Value::Object(values.collect()));
        }
        Step::Print(lines) => lines.iter().for_each(|line| println!("{line}")),
        Step::Fail(message) => return Err(message.into()),
        Step::Exit(message, status) => {
            eprintln!("{message}");
            std::process::exit(status);
        }
        Step::Abort => std::process::abort(),
        Step::Hang => pending().await,
        Step::Linger => LINGERS.store(true, Ordering::SeqCst),
        Step::WaitFor(file) => {
            while !file.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
    Ok(Value::Null)
}

/// Never ends after a `Linger` step, so that the runtime does not ask for the next event.
async fn linger<F: Future>(answer: F) -> F::Output {
    let answered = answer.await;
    if LINGERS.load(Ordering::SeqCst) {
        pending::<()>().await;
    }
    answered
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    if std::env::var("AT_START").is_ok_and(|step| step == "exit") {
        std::process::exit(7);
    }
    // The crate handles signals on Unix only.
    #[cfg(unix)]
    lambda_runtime::spawn_graceful_shutdown_handler(|| async {}).await;
    let lingering = MapFutureLayer::new(linger);
    Runtime::new(service_fn(handle))
        .layer(lingering)
        .run()
        .await
}
