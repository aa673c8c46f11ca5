#![allow(unused_variables)]

use std::rc::Rc;
use std::sync::Mutex;

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

static LEDGER: Mutex<u64> = Mutex::new(0);

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn ship(order: OrderPlaced) {
    let total = LEDGER.lock().unwrap();
    pay(*total).await;
}

fn main() {}
