#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount: f64,
}

#[sqs_once::handler(key = order.amount)]
async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = (order.order_id, order.amount))]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
    let _ = ship::consumer();
}
