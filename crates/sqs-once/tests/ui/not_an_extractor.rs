#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{HandlerError, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct Other;

#[sqs_once::handler(key = order.order_id)]
async fn charge(order: OrderPlaced, limit: u64) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id)]
async fn ship(order: OrderPlaced, one: State<String>, two: State<Other>) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
    let _ = ship::consumer();
}
