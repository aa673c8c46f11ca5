//! sqs-once: a consumer as users write it.

use std::env;

use sqs_once::consumer::Cache;
use sqs_once::{Error, HandlerError, State};
use sqs_once_bench::contract::{self, Order, Work};

#[sqs_once::handler(key = order.order_id, namespace = "bench")]
async fn charge(order: Order, State(work): State<Work>) -> Result<(), HandlerError> {
    let _ = order;
    work.run().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let is_set = |name| env::var(name).is_ok_and(|value| value == "1");
    let mut consumer = charge::consumer(Work::from_env());
    if is_set(contract::CACHED) {
        consumer = consumer.cache(Cache::new(1000));
    }
    sqs_once::run(consumer).await
}
