#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, lease_margin = "3")]
async fn no_unit(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, lease_margin = "s")]
async fn no_number(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = "4w")]
async fn unknown_unit(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = "28 d")]
async fn space(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = "-1d")]
async fn negative(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, lease_margin = "1.5s")]
async fn fraction(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, lease_margin = 3s)]
async fn unquoted(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, lease_margin = 3)]
async fn number(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = std::time::Duration::from_secs(3))]
async fn expression(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = "999999999999999d")]
async fn too_long(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = "0d")]
async fn zero(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, retain = "500ms")]
async fn too_short(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    let _ = no_unit::consumer();
    let _ = zero::consumer();
}
