//! Charges each order of an event bus once, also if its events are replayed.

use std::time::Duration;

use serde::Deserialize;
use sqs_once::body::EventBus;
use sqs_once::extract::EventBusMeta;
use sqs_once::{Consumer, Error, HandlerError};

/// Longer than the bus keeps its events, so that no replay repeats a charge.
const RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
}

#[sqs_once::handler(key = order.order_id, namespace = "charges", envelope = EventBus)]
async fn charge(order: OrderPlaced, event: EventBusMeta) -> Result<(), HandlerError> {
    let is_replayed = event.is_replayed;
    tracing::info!(cents = order.amount_cents, is_replayed, "charged"); // your effect
    Ok(())
}

fn consumer() -> Consumer {
    Consumer::new(charge::handler().retention(RETENTION))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(consumer()).await
}

#[cfg(test)]
mod tests;
