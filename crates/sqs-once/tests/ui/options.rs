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

#[sqs_once::handler(key = order.order_id, modus = record_after, fingerprints = order.order_id, decoder = Text, namespace = "test")]
async fn three_misspelt(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelop = Sns, Namespace = "orders")]
async fn misspelt_too(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, topic = "orders", namespace = "test")]
async fn unknown(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "a", key = order.order_id, namespace = "b")]
async fn twice(order: OrderPlaced) {}

#[sqs_once::handler(kee = order.order_id, concurrency = 16, namespace = 7)]
fn several(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, attempt_timeout = "10s", backoff = exponential("2s", "15m"), namespace = "test")]
async fn timed(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, retain = "28d", namespace = "test")]
async fn retained(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, retention = "28d", namespace = "test")]
async fn kept(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, concurrency = 16, margins = wide, namespace = "test")]
async fn wide(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, store = MemoryStore::new(), queue, namespace = "test")]
async fn stored(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, claim = first, namespace = "test")]
async fn claimed(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, retries = 3, namespace = "test")]
async fn retried(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, max_concurrency = 4, namespace = "test")]
async fn misspelt(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, on_done = reply, namespace = "test")]
async fn r#return(order: OrderPlaced) {}

#[sqs_once::batch_handler(key = order.order_id, concurrency = 4, namespace = "test")]
async fn together(orders: sqs_once::Batch<OrderPlaced>) -> sqs_once::BatchOutcome {
    orders.all_succeeded()
}

fn main() {}
