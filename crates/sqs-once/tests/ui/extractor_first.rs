#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{IdempotencyToken, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id)]
async fn charge(State(app): State<String>, order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id)]
async fn ship(token: IdempotencyToken, order: OrderPlaced) {}

#[sqs_once::handler(key = meta.id)]
async fn notify(meta: sqs_once::extract::MessageMeta) {}

fn main() {}
