#![allow(unused_mut, unused_variables)]

use serde::Deserialize;
use sqs_once::{IdempotencyToken, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn without_payload() {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
fn blocking(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn by_reference(order: &OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn generic<T: Send>(order: OrderPlaced, state: State<T>) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn implied(order: OrderPlaced, state: State<impl Send>) {}

struct App;

impl App {
    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    async fn method(&self, order: OrderPlaced) {}
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
struct Charge;

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(State(app): State<String>, order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn ship(token: IdempotencyToken, order: OrderPlaced) {}

#[sqs_once::handler(key = meta.id, namespace = "test")]
async fn notify(key: sqs_once::BusinessKey) {}

fn main() {}
