#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{HandlerError, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id)]
async fn charge<T: Send>(order: OrderPlaced, state: State<T>) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id)]
async fn ship(order: OrderPlaced, state: State<impl Send>) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
    let _ = ship::consumer();
}
