//! Accepts each order, exactly once, and writes a message about it to an outbox, in the same transaction. The function
//! `relay` sends the messages of the outbox.

use serde::{Deserialize, Serialize};
use sqs_once::{Error, HandlerError, State, Writes};

#[derive(Deserialize, Serialize)]
struct OrderPlaced {
    order_id: String,
    customer_id: String,
}

/// A message to send. The table's TTL deletes it long after the relay has sent it.
#[derive(Serialize)]
struct OutboxMessage<'a> {
    id: &'a str,
    body: String,
    expires_at: u64,
}

#[derive(Clone)]
struct Tables {
    orders: String,
    outbox: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "orders")]
async fn accept(order: OrderPlaced, State(tables): State<Tables>) -> Result<Writes, HandlerError> {
    let in_a_week = std::time::SystemTime::now() + std::time::Duration::from_secs(7 * 24 * 3600);
    let message = OutboxMessage {
        // The receiver's business key: the relay may send a message twice.
        id: &order.order_id,
        body: serde_json::to_string(&order)?,
        expires_at: in_a_week.duration_since(std::time::UNIX_EPOCH)?.as_secs(),
    };
    Ok(Writes::new()
        .put(&tables.orders, &order)
        .put(&tables.outbox, &message))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (orders, outbox) = (
        std::env::var("ORDERS_TABLE")?,
        std::env::var("OUTBOX_TABLE")?,
    );
    sqs_once::run(accept::consumer(Tables { orders, outbox })).await
}

#[cfg(test)]
mod tests;
