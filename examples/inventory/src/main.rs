//! Reserves what is ordered, once, and leaves a message about it in an outbox.
//!
//! A message is `{"order_id": "o-2001", "customer_id": "c-7", "article": "mug-blue", "pieces": 2}`.

mod order;
mod tables;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use sqs_once::policy::{Disposition, PayloadMismatch};
use sqs_once::{Consumer, Error, HandlerError, ResultExt, State, Writes};

use order::{OrderPlaced, OutboxMessage};
use tables::Tables;

/// Keeps the order, takes its pieces out of the stock, and leaves the message about it in the outbox: all of that and the
/// record of its key in one transaction, or nothing.
#[sqs_once::handler(key = order.order_id, namespace = "inventory")]
async fn reserve(order: OrderPlaced, State(tables): State<Tables>) -> Result<Writes, HandlerError> {
    order.check().terminal()?; // it will be as wrong the next time
    let message = OutboxMessage::about(&order, SystemTime::now())?;
    let writes = Writes::new()
        .put_item(tables.new_order(&order)?)
        .on_conflict(0, |_| Disposition::Terminal) // kept already, longer ago than keys are remembered
        .update(tables.less_stock(&order)?)
        .on_conflict(1, |_| Disposition::Terminal) // not enough in stock
        .put(&tables.outbox, &message)?;
    Ok(writes)
}

/// An order under the key of another one is no duplicate: it fails, and ends in the dead-letter queue.
fn consumer(tables: Tables) -> Consumer {
    reserve::consumer()
        .state(tables)
        .payload_mismatch(PayloadMismatch::Reject)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let tables = Tables::from_env()?;
    sqs_once::run(consumer(tables)).await
}
