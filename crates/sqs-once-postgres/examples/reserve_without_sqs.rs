//! The function of the example `reserve`, which EventBridge calls without a queue.
//!
//! EventBridge may call a function twice for one event, and so may SNS, a schedule, and Lambda for an asynchronous call.
//! An event is `{"detail": {"order_id": "o-1001", "sku": "a-7"}}` and whatever else EventBridge puts there.

use lambda_runtime::{Error, LambdaEvent, service_fn, tracing};
use serde::{Deserialize, Serialize};
use sqs_once::{HandlerError, Idempotency};
use sqs_once_postgres::{PostgresStore, Transaction, without_values};

#[derive(Deserialize)]
struct Event {
    detail: OrderPlaced,
}

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    sku: String,
}

#[derive(Serialize, Deserialize)]
struct Reservation {
    pieces_left: i64,
}

/// Takes one piece from the stock and stores the reservation, in one transaction.
async fn reserve(order: &OrderPlaced, tx: &Transaction) -> Result<Reservation, HandlerError> {
    let take =
        "UPDATE stock SET pieces = pieces - 1 WHERE sku = $1 AND pieces > 0 RETURNING pieces";
    let taken = tx.query_opt(take, &[&order.sku]).await;
    let taken = taken.map_err(without_values)?.ok_or("out of stock")?;
    let reserve = "INSERT INTO reservations (order_id, sku) VALUES ($1, $2)";
    tx.execute(reserve, &[&order.order_id, &order.sku])
        .await
        .map_err(without_values)?;
    Ok(Reservation {
        pieces_left: taken.try_get("pieces")?,
    })
}

/// Answers with the order's reservation, whenever it was made. On an error Lambda calls the function again.
async fn handle(
    idempotency: &Idempotency,
    event: LambdaEvent<Event>,
) -> Result<Option<Reservation>, Error> {
    let order = event.payload.detail;
    let reservation = idempotency
        .until(event.context.deadline())
        .run_in_transaction(&order.order_id, async |tx: Transaction, _token| {
            reserve(&order, &tx).await
        })
        .await?;
    Ok(reservation.into_value())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let store = PostgresStore::from_env()?;
    let idempotency = Idempotency::new("stock").store(store);
    idempotency.init().await?; // better not to start than to fail every event
    lambda_runtime::run(service_fn(|event| handle(&idempotency, event))).await
}
