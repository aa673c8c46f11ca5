//! A function that does what its event tells it to: what the tests of this crate run.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is what is tested"
)]

use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Deserialize;
use serde_json::{Value, json};
use std::future::pending;

/// An event is `{"answer": …}`, `"hang"` and so on.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    /// Answer with this.
    Answer(Value),
    /// Answer with the values of these environment variables.
    Environment(Vec<String>),
    /// Write these lines to standard output, then answer with nothing.
    Print(Vec<String>),
    /// Answer with an error that says this.
    Fail(String),
    /// Write this to standard error and end with this status.
    Exit(String, i32),
    /// Die of a signal.
    Abort,
    /// Never answer.
    Hang,
}

async fn step(event: LambdaEvent<Step>) -> Result<Value, Error> {
    match event.payload {
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
    }
    Ok(Value::Null)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    match std::env::var("AT_START").as_deref() {
        Ok("exit") => std::process::exit(7),
        Ok("hang") => pending().await,
        _ => {}
    }
    lambda_runtime::spawn_graceful_shutdown_handler(|| async {}).await;
    lambda_runtime::run(service_fn(step)).await
}
