//! sqs-once: a consumer as its users write it.

use sqs_once::{Error, HandlerError, State};
use sqs_once_bench::contract::{Order, Work};

/// Does the work of one order.
#[sqs_once::handler(key = order.order_id, namespace = "bench")]
async fn charge(order: Order, State(work): State<Work>) -> Result<(), HandlerError> {
    let _ = order;
    work.run().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(charge::consumer().state(Work::from_env())).await
}
