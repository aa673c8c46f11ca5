//! What is easily forgotten around a handler.
#![allow(dead_code, unused_variables)]

use std::any::Any;
use std::error::Error as StdError;
use std::sync::Arc;

use serde::Deserialize;
use sqs_once::store::FromTransaction;
use sqs_once::once::Invocation;
use sqs_once::{HandlerError, Idempotency, IdempotencyToken, Writes};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct App;

impl App {
    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    async fn associated(order: OrderPlaced) {}
}

fn parse(order: &OrderPlaced) -> Result<u32, Box<dyn StdError>> {
    Ok(order.order_id.parse()?)
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn boxed(order: OrderPlaced) -> Result<(), HandlerError> {
    parse(&order)?;
    Ok(())
}

async fn without_a_deadline(idempotency: &Idempotency, order: OrderPlaced) {
    let work = || async { Ok::<_, HandlerError>(()) };
    let done = idempotency.run(&order.order_id, work).await;
}

fn with_a_value_that_no_completion_can_hold(invocation: &Invocation<'_>, order: OrderPlaced) {
    let work = || async { Ok::<_, HandlerError>((Writes::new(), App)) };
    let doing = invocation.run(&order.order_id, work);
}

fn in_something_else(invocation: &Invocation<'_>, order: OrderPlaced) {
    let work = async |tx: App, token: IdempotencyToken| Ok::<_, HandlerError>(());
    let doing = invocation.run_in_transaction(&order.order_id, work);
}

struct Transaction;

impl FromTransaction for Transaction {
    fn from_transaction(_: Arc<dyn Any + Send + Sync>) -> Option<Self> {
        Some(Self)
    }
}

fn in_two_transactions(invocation: &Invocation<'_>, order: OrderPlaced) {
    let work = async |tx: Transaction, token: IdempotencyToken| Ok::<_, HandlerError>(Writes::new());
    let doing = invocation.run_in_transaction(&order.order_id, work);
}

fn main() {}
