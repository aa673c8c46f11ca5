#![allow(unused_variables)]

use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, attempt_timeout = "10s", namespace = "test")]
async fn timed(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, retain = "28d", namespace = "test")]
async fn retained(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, retention = "28d", namespace = "test")]
async fn kept(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, concurrency = 16, margins = wide, namespace = "test")]
async fn wide(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = exponential("2s", "15m"), namespace = "test")]
async fn away(order: OrderPlaced) {}

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
