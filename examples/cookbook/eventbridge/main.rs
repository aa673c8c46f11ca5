//! Refunds each return that an EventBridge rule sends to the queue.

use serde::Deserialize;
use sqs_once::body::EventBridge;
use sqs_once::extract::EventBridgeMeta;
use sqs_once::{Error, HandlerError, ResultExt};

/// The `detail` of an event.
#[derive(Deserialize)]
struct ParcelReturned {
    return_id: String,
    amount_cents: u64,
}

/// EventBridge can deliver an event twice, with the same id. A producer can also publish it twice, with two ids. So the
/// key is the return, not the event.
#[sqs_once::handler(key = parcel.return_id, envelope = EventBridge, namespace = "refunds")]
async fn refund(parcel: ParcelReturned, event: EventBridgeMeta) -> Result<(), HandlerError> {
    if event.detail_type.as_deref() != Some("ParcelReturned") {
        return Err("the rule sends events of another type").terminal();
    }
    tracing::info!(cents = parcel.amount_cents, "refunded"); // your effect
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(refund::consumer()).await
}

#[cfg(test)]
mod tests;
