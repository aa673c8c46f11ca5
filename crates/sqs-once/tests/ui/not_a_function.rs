#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id)]
struct Charge;

#[sqs_once::handler(key = order.order_id)]
mod orders {}

#[sqs_once::handler(key = order.order_id)]
const CHARGE: fn(OrderPlaced) -> Result<(), HandlerError> = |_| Ok(());

fn main() {}
