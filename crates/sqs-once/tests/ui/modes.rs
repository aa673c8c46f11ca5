//! Modes that a handler's effect can not have.
#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::extract::FromRecord;
use sqs_once::{Batch, BatchWrites, HandlerError, Writes};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

/// A transaction of a store.
struct Transaction;

impl<S: Sync> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_record(_: &sqs_once::extract::RecordParts<S>) -> Result<Self, HandlerError> {
        Ok(Self)
    }
}

#[sqs_once::handler(key = order.order_id, mode = record_after, namespace = "test")]
async fn writing(order: OrderPlaced) -> Writes {
    Writes::new()
}

#[sqs_once::batch_handler(key = order.order_id, mode = record_after, namespace = "test")]
async fn writing_together(orders: Batch<OrderPlaced>) -> BatchWrites {
    orders.writes()
}

#[sqs_once::handler(key = order.order_id, mode = record_after, namespace = "test")]
async fn booking(order: OrderPlaced, tx: Transaction) {}

#[sqs_once::handler(key = order.order_id, mode = claim_first, namespace = "test")]
async fn booking_claimed(order: OrderPlaced, tx: Transaction) {}

#[sqs_once::handler(key = order.order_id, mode = claim_first, namespace = "test")]
async fn plain(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, mode = claim_first, namespace = "test")]
async fn both(order: OrderPlaced, tx: Transaction) -> Writes {
    Writes::new()
}

fn main() {}
