#![allow(unused_mut, unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler]
async fn charge(payment: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler()]
async fn ship(mut order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(namespace = "orders")]
async fn notify(OrderPlaced { order_id }: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler]
async fn ignore(_: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
    let _ = ship::consumer();
    let _ = notify::consumer();
    let _ = ignore::consumer();
}
