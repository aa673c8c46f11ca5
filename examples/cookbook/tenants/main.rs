//! Handles orders of several tenants. Two tenants may use the same order id.

use serde::Deserialize;
use sqs_once::extract::Message;
use sqs_once::key::MessageKey;
use sqs_once::{Error, HandlerError, ResultExt};
use std::sync::Arc;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    pieces: u32,
}

/// The tenant is a message attribute. Only a sender that you trust may write to the queue, because a sender chooses its
/// attributes. A message without the attribute is terminal.
#[sqs_once::handler(key = (MessageKey::attribute("tenant"), order.order_id), namespace = "shipments")]
async fn ship(order: OrderPlaced, message: Arc<Message>) -> Result<(), HandlerError> {
    if order.pieces == 0 {
        return Err("the order is for no pieces").terminal();
    }
    tracing::info!(tenant = message.attribute("tenant"), "shipped"); // your effect
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(ship::consumer()).await
}

#[cfg(test)]
mod tests;
