#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{HandlerError, IdempotencyToken};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = token.to_string())]
async fn charge(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = charge::consumer();
}
