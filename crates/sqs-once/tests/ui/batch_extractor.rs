#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, BatchOutcome, IdempotencyToken};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn insert(orders: Batch<OrderPlaced>, token: IdempotencyToken) -> BatchOutcome {
    orders.all_succeeded()
}

fn main() {
    let _ = insert::consumer();
}
