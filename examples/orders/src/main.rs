//! Charges every order in a queue, once.
//!
//! A message is `{"order_id": "o-1001", "customer_id": "c-7", "amount_cents": 1299, "currency": "EUR"}`.

mod order;
mod payments;
#[cfg(test)]
mod tests;

use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt, State};

use order::OrderPlaced;
use payments::Payments;

/// Charges the customer for one order.
#[sqs_once::handler(key = order.order_id, namespace = "orders")]
async fn charge(
    order: OrderPlaced,
    token: IdempotencyToken,
    State(payments): State<Payments>,
) -> Result<(), HandlerError> {
    order.check().terminal()?; // a retry would fail the same way
    payments.charge(&order, &token).await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(charge::consumer(Payments::from_env()?)).await
}
