//! Charges each order of an event bus once, also if its events are replayed.

use serde::Deserialize;
use sqs_once::body::EventBus;
use sqs_once::extract::EventBusMeta;
use sqs_once::{Error, HandlerError};

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

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(charge::consumer()).await
}

#[cfg(test)]
mod tests;
