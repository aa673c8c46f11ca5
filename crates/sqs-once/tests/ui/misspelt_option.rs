#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(kee = order.order_id)]
async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, modus = record_after, fingerprints = order.order_id)]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, envelop = Sns, Namespace = "orders")]
async fn notify(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
    let _ = ship::consumer();
    let _ = notify::consumer();
}
