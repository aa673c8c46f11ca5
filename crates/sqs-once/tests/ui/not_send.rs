#![allow(unused_variables)]

use std::rc::Rc;

use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

async fn pay(cents: u64) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced) {
    let cents = Rc::new(7);
    pay(*cents).await;
}

fn main() {}
