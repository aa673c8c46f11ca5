#![allow(unused_mut, unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, BatchOutcome, HandlerError, IdempotencyToken, State};

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: String,
    order_id: String,
}

#[sqs_once::batch_handler]
async fn missing(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = "order", namespace = "test")]
async fn constant(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = format!("{}/{}", order.tenant, order.order_id), namespace = "test")]
async fn nameless(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.number, namespace = "test")]
async fn no_such_field(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn one(order: OrderPlaced) -> BatchOutcome {
    loop {}
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn list(orders: Vec<OrderPlaced>) -> BatchOutcome {
    loop {}
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn borrowed(orders: &Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn nothing() -> BatchOutcome {
    loop {}
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn last(State(name): State<String>, orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
struct Orders;

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn insert(orders: Batch<OrderPlaced>, token: IdempotencyToken) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn collect(orders: Batch<OrderPlaced>) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = missing::consumer();
}
