//! What newcomers write at first.
#![allow(dead_code, unused_variables)]

use serde::Deserialize;
use sqs_once::{Batch, Consumer, Error};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Deserialize)]
struct Borrowed<'a> {
    order_id: &'a str,
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn borrowed(order: Borrowed<'_>) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn one_at_a_time(orders: Batch<OrderPlaced>) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced) {}

async fn function() -> Result<(), Error> {
    sqs_once::run(charge).await
}

fn consumer() -> Consumer {
    charge::handler()
}

async fn several() -> Result<(), Error> {
    sqs_once::run((charge::handler(), charge::handler())).await
}

fn main() {}
