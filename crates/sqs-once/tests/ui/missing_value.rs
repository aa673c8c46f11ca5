#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key)]
async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, mode =)]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = , state)]
async fn notify(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(order.order_id)]
async fn ignore(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
    let _ = ship::consumer();
    let _ = notify::consumer();
    let _ = ignore::consumer();
}
