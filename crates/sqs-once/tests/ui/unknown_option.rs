#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{HandlerError, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, dead_letter_queue = "orders-dlq")]
async fn charge(order: OrderPlaced, app: State<u8>) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, visibility = "5m")]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer().state(7);
}
