#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(kee = order.order_id, concurrency = 16, namespace = 7)]
fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
}
