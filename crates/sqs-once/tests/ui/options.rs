#![allow(unused_variables)]

use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key, namespace = "test")]
async fn key_without_value(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, mode =, namespace = "test")]
async fn mode_without_value(order: OrderPlaced) {}

#[sqs_once::handler(key = , state, namespace = "test")]
async fn two_without_values(order: OrderPlaced) {}

#[sqs_once::handler(order.order_id, namespace = "test")]
async fn only_a_value(order: OrderPlaced) {}

#[sqs_once::handler(kee = order.order_id, namespace = "test")]
async fn misspelt(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, modus = record_after, fingerprints = order.order_id, namespace = "test")]
async fn two_misspelt(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelop = Sns, Namespace = "orders")]
async fn misspelt_too(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, topic = "orders", namespace = "test")]
async fn unknown(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "a", key = order.order_id, namespace = "b")]
async fn twice(order: OrderPlaced) {}

#[sqs_once::handler(kee = order.order_id, concurrency = 16, namespace = 7)]
fn several(order: OrderPlaced) {}

fn main() {}
