#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced) -> Result<u64, HandlerError> {
    Ok(1)
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn ship(order: OrderPlaced) -> bool {
    true
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn notify(order: OrderPlaced) -> Result<(), sqs_once::Error> {
    Ok(())
}

fn main() {}
