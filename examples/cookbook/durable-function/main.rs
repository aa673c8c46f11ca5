//! Starts an execution of a durable Lambda function for each order, once.

use serde::{Deserialize, Serialize};
use sqs_once::executions::{DurableFunction, StartExecution};
use sqs_once::{Error, HandlerError, State};

#[derive(Deserialize, Serialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
}

/// The execution's name is made from the key, and its input is the order.
#[sqs_once::handler(key = order.order_id, namespace = "fulfilment")]
async fn fulfil(
    order: OrderPlaced,
    State(fulfilment): State<DurableFunction>,
) -> Result<StartExecution, HandlerError> {
    Ok(fulfilment.start(&order))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let fulfilment = DurableFunction::new(std::env::var("FULFILMENT")?)?;
    sqs_once::run(fulfil::consumer(fulfilment)).await
}

#[cfg(test)]
mod tests;
