//! The function of the example `reserve` for many orders at once: one transaction for the batch.
//!
//! It needs the table in `schema/v1.sql`, the tables `stock (sku text PRIMARY KEY, pieces bigint)` and
//! `reservations (order_id text, sku text)`, and the variable `DATABASE_URL`.

use serde::Deserialize;
use sqs_once::{Batch, BatchOutcome, Error, HandlerError};
use sqs_once_postgres::{BatchTransaction, PostgresStore, Transaction, without_values};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    sku: String,
}

/// Takes one piece from the stock and stores the reservation.
async fn reserve(order: &OrderPlaced, tx: Transaction) -> Result<(), HandlerError> {
    let reserve = "INSERT INTO reservations (order_id, sku) VALUES ($1, $2)";
    tx.execute(reserve, &[&order.order_id, &order.sku])
        .await
        .map_err(without_values)?;
    let take = "UPDATE stock SET pieces = pieces - 1 WHERE sku = $1 AND pieces > 0";
    let taken = tx.execute(take, &[&order.sku]).await;
    match taken.map_err(without_values)? {
        // Its savepoint undoes the reservation, and the other orders keep theirs.
        0 => Err(HandlerError::terminal("out of stock")),
        _ => Ok(()),
    }
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "stock")]
async fn reserve_all(orders: Batch<OrderPlaced>, mut tx: BatchTransaction) -> BatchOutcome {
    let mut outcome = orders.outcome();
    for record in &orders {
        let reserved = tx.savepoint([record], async |tx| reserve(record.payload(), tx).await);
        outcome.ended(record, reserved.await);
    }
    outcome
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let consumer = reserve_all::consumer().store(PostgresStore::from_env()?);
    sqs_once::run(consumer).await
}
