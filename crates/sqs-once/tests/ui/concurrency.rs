#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, concurrency = "16")]
async fn text(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, concurrency = 0)]
async fn zero(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, concurrency = -1)]
async fn negative(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, concurrency = 1.5)]
async fn float(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, concurrency = 99999999999999999999)]
async fn too_large(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, concurrency = MAX)]
async fn constant(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = text::consumer();
    let _ = zero::consumer();
    let _ = negative::consumer();
    let _ = float::consumer();
    let _ = too_large::consumer();
    let _ = constant::consumer();
}
