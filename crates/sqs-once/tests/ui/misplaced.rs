//! Settings in another place than theirs.
#![allow(dead_code, unused_variables)]

use std::time::Duration;

use serde::Deserialize;
use sqs_once::policy::UnknownOutcome;
use sqs_once::store::MemoryStore;
use sqs_once::{Batch, BatchOutcome, Handler};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "charges")]
async fn charge(order: OrderPlaced) {}

#[sqs_once::batch_handler(key = order.order_id, namespace = "inserts")]
async fn insert(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

fn of_the_handler() {
    let consumer = charge::consumer().retention(Duration::from_secs(60));
}

fn of_the_consumer() {
    let handler = charge::handler().store(MemoryStore::new());
}

fn of_handlers_of_one_message() {
    let handler = insert::handler().unknown_outcome(UnknownOutcome::dead_letter());
    let handler = insert::handler().layer(async |record, next: sqs_once::handler::Next| next.run().await);
}

fn of_one_handler() {
    let defaults = Handler::defaults().namespace("charges");
}

fn of_messages() {
    let work = Handler::work().namespace("receipts").envelope(sqs_once::body::Sns);
}

fn a_route() {
    let router = sqs_once::Router::by_attribute("type")
        .route("a", charge::consumer())
        .route("b", insert::handler())
        .concurrency(4);
}

fn main() {}
