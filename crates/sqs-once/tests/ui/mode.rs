#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, mode = exactly_once)]
async fn unsupported(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, mode = record_afterwards)]
async fn misspelt(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, mode = "record_after")]
async fn quoted(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, mode = "fast")]
async fn quoted_unknown(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, fingerprint = 7)]
async fn constant_fingerprint(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = quoted::consumer();
}
