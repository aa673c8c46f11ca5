//! What newcomers write at first.
#![allow(dead_code, unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, Consumer, Error, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Deserialize)]
struct Borrowed<'a> {
    order_id: &'a str,
}

#[derive(Clone)]
struct App {
    prefix: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn borrowed(order: Borrowed<'_>) {}

impl App {
    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    async fn method(&self, order: OrderPlaced) {}
}

#[sqs_once::handler(key = (app.prefix, order.order_id), namespace = "test")]
async fn keyed_by_state(order: OrderPlaced, State(app): State<App>) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn one_at_a_time(orders: Batch<OrderPlaced>) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced) {}

async fn function() -> Result<(), Error> {
    sqs_once::run(charge).await
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn with_state(order: OrderPlaced, State(app): State<App>) {}

fn consumer() -> Consumer {
    charge::handler()
}

async fn several() -> Result<(), Error> {
    sqs_once::run((charge::handler(), charge::handler())).await
}

fn main() {}
