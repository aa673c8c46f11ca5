//! A binary that is not named after its package.
#![allow(dead_code)]

use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id)]
async fn refund(order: OrderPlaced) {
    drop(order);
}

fn main() {}
