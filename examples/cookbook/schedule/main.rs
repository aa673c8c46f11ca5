//! Writes the invoices of a day, once for each day. EventBridge Scheduler sends a message when a day is over.

use serde::Deserialize;
use sqs_once::{Error, HandlerError, ResultExt};

/// The schedule's input. The template writes it, with `<aws.scheduler.scheduled-time>` as `scheduled_for`.
#[derive(Deserialize)]
struct JobDue {
    job: String,
    scheduled_for: String,
}

/// `scheduled_for` is the same in all attempts to send one occurrence. The execution id and the time of sending are not.
#[sqs_once::handler(key = (due.job, due.scheduled_for), namespace = "jobs")]
async fn run(due: JobDue) -> Result<(), HandlerError> {
    match due.job.as_str() {
        "invoices" => tracing::info!(due.scheduled_for, "invoices written"), // your effect
        _ => return Err("there is no such job").terminal(),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(run::consumer()).await
}

#[cfg(test)]
mod tests;
