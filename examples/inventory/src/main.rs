//! Reserves the articles of an order, once, and writes a message about it to an outbox.
//!
//! A message is `{"order_id": "o-2001", "customer_id": "c-7", "article": "mug-blue", "pieces": 2}`.

mod order;
mod tables;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use sqs_once::policy::Disposition;
use sqs_once::{Error, HandlerError, ResultExt, State, Writes};

use order::{OrderPlaced, OutboxMessage};
use tables::Tables;

/// Stores the order, takes its pieces from the stock, and writes the message to the outbox. All three commit in one
/// transaction with the completion of the key, or none does.
#[sqs_once::handler(key = order.order_id, namespace = "inventory")]
async fn reserve(order: OrderPlaced, State(tables): State<Tables>) -> Result<Writes, HandlerError> {
    order.check().terminal()?; // a retry would fail the same way
    let message = OutboxMessage::about(&order, SystemTime::now())?;
    let writes = Writes::new()
        .put_item(tables.new_order(&order)?)
        .on_conflict(|_| Disposition::Terminal) // stored before its key expired
        .update(tables.less_stock(&order)?)
        .on_conflict(|_| Disposition::Terminal) // out of stock
        .put(&tables.outbox, &message);
    Ok(writes)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let tables = Tables::from_env()?;
    sqs_once::run(reserve::consumer(tables)).await
}
