#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, HandlerError};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn insert(orders: Batch<OrderPlaced>) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = insert::consumer();
}
