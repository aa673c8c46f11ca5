//! Arguments, results and consumers that a handler can not have.
#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{Error, Handler, HandlerError, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct Other;

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn limited(order: OrderPlaced, limit: u64) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn of_two_states(order: OrderPlaced, one: State<String>, two: State<Other>) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn counting(order: OrderPlaced) -> Result<u64, HandlerError> {
    Ok(1)
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn failing(order: OrderPlaced) -> Result<(), sqs_once::Error> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced, State(app): State<String>) {}

async fn without_state() -> Result<(), Error> {
    sqs_once::run(charge::consumer()).await
}

async fn without_handler() -> Result<(), Error> {
    sqs_once::run(Handler::json::<OrderPlaced>()).await
}

fn main() {}
