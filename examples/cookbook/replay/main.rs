//! Issues one receipt number for each order, and tells it to everyone who asks again.
//!
//! The completion keeps the number. A duplicate gets the same number, and no new one is issued.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use sqs_once::extract::RecordEnd;
use sqs_once::{Completion, Error, Handler, HandlerError, ResultExt, State};

#[derive(Deserialize)]
struct OrderPaid {
    order_id: String,
    amount_cents: u64,
}

/// Your source of numbers. This one starts at 1 in every process.
type Numbers = Arc<AtomicU64>;

#[sqs_once::handler(key = order.order_id, namespace = "receipts")]
async fn issue(
    order: OrderPaid,
    State(numbers): State<Numbers>,
) -> Result<Completion<u64>, HandlerError> {
    if order.amount_cents == 0 {
        return Err("nothing was paid").terminal();
    }
    Ok(Completion(numbers.fetch_add(1, Ordering::Relaxed) + 1))
}

/// Replies. If it fails, the message returns to the queue, and the duplicate replies.
async fn reply(end: RecordEnd) -> Result<(), HandlerError> {
    let number: Option<u64> = end.completion()?;
    tracing::info!(to = end.message().attribute("reply-to"), number, "receipt"); // your effect
    Ok(())
}

fn handler(numbers: Numbers) -> Handler {
    issue::handler(numbers).on_done(reply)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(handler(Numbers::default())).await
}

#[cfg(test)]
mod tests;
