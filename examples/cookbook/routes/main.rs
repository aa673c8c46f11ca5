//! Charges placed orders and refunds cancelled ones, from one queue.

use serde::Deserialize;
use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt, Router};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
}

#[derive(Deserialize)]
struct OrderCancelled {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "charges")]
async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
    if order.amount_cents == 0 {
        return Err("there is nothing to charge").terminal();
    }
    tracing::info!(token = token.as_str(), "charged"); // your effect
    Ok(())
}

#[sqs_once::handler(key = order.order_id, namespace = "refunds")]
async fn refund(order: OrderCancelled, token: IdempotencyToken) -> Result<(), HandlerError> {
    tracing::info!(order = order.order_id, token = token.as_str(), "refunded"); // your effect
    Ok(())
}

/// The producer names the type in a message attribute. A message of another type is terminal.
fn router() -> Router {
    sqs_once::Router::by_attribute("type")
        .route("OrderPlaced", charge::handler())
        .route("OrderCancelled", refund::handler())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(router()).await
}

#[cfg(test)]
mod tests;
