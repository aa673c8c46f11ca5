#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, BatchOutcome, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn one(order: OrderPlaced) -> BatchOutcome {
    loop {}
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn list(orders: Vec<OrderPlaced>) -> BatchOutcome {
    loop {}
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn borrowed(orders: &Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn nothing() -> BatchOutcome {
    loop {}
}

#[sqs_once::batch_handler(key = order.order_id)]
async fn last(State(name): State<String>, orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.order_id)]
struct Orders;

fn main() {
    let _ = one::consumer();
    let _ = list::consumer();
    let _ = borrowed::consumer();
    let _ = nothing::consumer();
    let _ = last::consumer();
}
