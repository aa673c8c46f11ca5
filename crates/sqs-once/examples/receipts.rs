//! A function that EventBridge invokes: issues a receipt for every order, once.
//!
//! EventBridge may invoke a function twice for one event, and so may SNS, a schedule, and Lambda itself
//! for an asynchronous call. An event is
//! `{"detail": {"order_id": "o-1001", "amount_cents": 1299}}` and whatever else EventBridge puts there.

use std::time::{SystemTime, UNIX_EPOCH};

use lambda_runtime::tracing::{self, info};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::{Deserialize, Serialize};
use sqs_once::{HandlerError, Idempotency, IdempotencyToken};

/// The part of EventBridge's event that matters here.
#[derive(Deserialize)]
struct Event {
    detail: OrderPlaced,
}

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    number: String,
    amount_cents: u64,
}

/// The effect. A real one calls a service, with the token for that service to deduplicate by.
async fn issue(order: &OrderPlaced, token: IdempotencyToken) -> Result<Receipt, HandlerError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    info!(%token, "receipt issued");
    Ok(Receipt {
        number: format!("r-{}", now.as_nanos()),
        amount_cents: order.amount_cents,
    })
}

/// Answers with the order's receipt, whenever it was issued. On an error Lambda invokes the function again.
async fn handle(
    idempotency: &Idempotency,
    event: LambdaEvent<Event>,
) -> Result<Option<Receipt>, Error> {
    let order = event.payload.detail;
    let receipt = idempotency
        .until(event.context.deadline())
        .run_with_token(&order.order_id, |token| issue(&order, token))
        .await?;
    Ok(receipt.into_value())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let idempotency = Idempotency::new("receipts");
    idempotency.init().await?; // better not to start than to fail every event
    lambda_runtime::run(service_fn(|event| handle(&idempotency, event))).await
}
