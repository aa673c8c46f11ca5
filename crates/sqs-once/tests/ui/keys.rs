#![allow(unused_mut, unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, BatchOutcome, IdempotencyToken};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount: f64,
}

#[sqs_once::handler]
async fn missing(payment: OrderPlaced) {}

#[sqs_once::handler()]
async fn missing_too(mut order: OrderPlaced) {}

#[sqs_once::handler(namespace = "orders")]
async fn missing_beside_another(OrderPlaced { order_id, .. }: OrderPlaced) {}

#[sqs_once::handler]
async fn ignoring_its_payload(_: OrderPlaced) {}

#[sqs_once::handler(key = "order", namespace = "test")]
async fn constant(order: OrderPlaced) {}

#[sqs_once::handler(key = token.to_string(), namespace = "test")]
async fn of_another_argument(order: OrderPlaced, token: IdempotencyToken) {}

#[sqs_once::handler(key = order.amount, namespace = "test")]
async fn charge(order: OrderPlaced) {}

#[sqs_once::handler(key = (order.order_id, order.amount), namespace = "test")]
async fn ship(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id)]
async fn without_a_namespace(order: OrderPlaced) {}

#[sqs_once::batch_handler(key = order.order_id, fingerprint = order.order_id)]
async fn batch_without_a_namespace(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

fn main() {
    let _ = without_a_namespace::consumer();
    let _ = batch_without_a_namespace::consumer();
    let _ = missing::consumer();
    let _ = missing_too::consumer();
    let _ = missing_beside_another::consumer();
    let _ = ignoring_its_payload::consumer();
    let _ = constant::consumer();
    let _ = of_another_argument::consumer();
    let _ = charge::consumer();
    let _ = ship::consumer();
}
