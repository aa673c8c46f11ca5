//! What is easily forgotten around a handler.
#![allow(dead_code, unused_variables)]

use std::error::Error as StdError;

use serde::Deserialize;
use sqs_once::{HandlerError, Idempotency};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct App;

impl App {
    #[sqs_once::handler(key = order.order_id)]
    async fn associated(order: OrderPlaced) {}
}

fn parse(order: &OrderPlaced) -> Result<u32, Box<dyn StdError>> {
    Ok(order.order_id.parse()?)
}

#[sqs_once::handler(key = order.order_id)]
async fn boxed(order: OrderPlaced) -> Result<(), HandlerError> {
    parse(&order)?;
    Ok(())
}

async fn without_a_deadline(idempotency: &Idempotency, order: OrderPlaced) {
    let work = || async { Ok::<_, HandlerError>(()) };
    let done = idempotency.run(&order.order_id, work).await;
}

fn main() {}
