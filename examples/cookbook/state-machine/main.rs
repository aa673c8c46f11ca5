//! Starts an execution of Step Functions for each order, once.

use serde::{Deserialize, Serialize};
use sqs_once::executions::{StartExecution, StateMachine};
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
    State(fulfilment): State<StateMachine>,
) -> Result<StartExecution, HandlerError> {
    Ok(fulfilment.start(&order))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let fulfilment = StateMachine::new(std::env::var("FULFILMENT_ARN")?)?;
    sqs_once::run(fulfil::consumer(fulfilment)).await
}

#[cfg(test)]
mod tests;
