#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, topic = "orders")]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = ship::consumer();
}
