#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{HandlerError, Writes};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, claim = last)]
async fn unknown(order: OrderPlaced) -> Result<Writes, HandlerError> {
    Ok(Writes::new())
}

#[sqs_once::handler(key = order.order_id, claim = "first")]
async fn quoted(order: OrderPlaced) -> Result<Writes, HandlerError> {
    Ok(Writes::new())
}

#[sqs_once::handler(key = order.order_id, claim)]
async fn alone(order: OrderPlaced) -> Result<Writes, HandlerError> {
    Ok(Writes::new())
}

#[sqs_once::handler(key = order.order_id, claim = first, mode = transactional)]
async fn contradicting(order: OrderPlaced) -> Result<Writes, HandlerError> {
    Ok(Writes::new())
}

#[sqs_once::handler(key = order.order_id, mode = claim_first, claim = first)]
async fn saying_it_twice(order: OrderPlaced) -> Result<Writes, HandlerError> {
    Ok(Writes::new())
}

fn main() {
    let _ = quoted::consumer();
}
