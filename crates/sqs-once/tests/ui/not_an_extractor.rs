#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::State;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct Other;

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced, limit: u64) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn ship(order: OrderPlaced, one: State<String>, two: State<Other>) {}

fn main() {}
