//! A function that reserves one piece for an order, in PostgreSQL, exactly once.
//!
//! It needs the table in `schema/v1.sql`, the tables `stock (sku text PRIMARY KEY, pieces bigint)` and
//! `reservations (order_id text, sku text)`, and the variable `DATABASE_URL`.

use serde::Deserialize;
use sqs_once::{Error, HandlerError};
use sqs_once_postgres::{PostgresStore, Transaction, without_values};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    sku: String,
}

/// Takes one piece from the stock and stores the reservation, in one transaction.
#[sqs_once::handler(key = order.order_id, namespace = "stock")]
async fn reserve(order: OrderPlaced, tx: Transaction) -> Result<(), HandlerError> {
    let take = "UPDATE stock SET pieces = pieces - 1 WHERE sku = $1 AND pieces > 0";
    let taken = tx.execute(take, &[&order.sku]).await;
    if taken.map_err(without_values)? == 0 {
        // No retry helps, so the message is terminal and moves to the dead-letter queue.
        return Err(HandlerError::terminal("out of stock"));
    }
    let reserve = "INSERT INTO reservations (order_id, sku) VALUES ($1, $2)";
    tx.execute(reserve, &[&order.order_id, &order.sku])
        .await
        .map_err(without_values)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let consumer = reserve::consumer().store(PostgresStore::from_env()?);
    sqs_once::run(consumer).await
}
