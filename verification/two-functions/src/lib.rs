//! A handler in a library, and functions that print the namespaces of handlers.

use sqs_once::extract::Key;
use sqs_once::testing::{Bench, Event};
use sqs_once::{Consumer, MemoryStore};

/// A handler in the root of the library, which has the same name as the binary.
#[sqs_once::handler(key = order["id"].as_str())]
pub async fn handle(order: serde_json::Value, key: Key) {
    tell(&order, &key);
}

/// Prints the item id of an order's key.
#[allow(clippy::print_stdout, reason = "its test reads it")]
pub fn tell(_: &serde_json::Value, key: &Key) {
    println!("id {}", key.item_id().as_str());
}

/// Prints the item id of a consumer's key on a bench, then whether the consumer starts without a bench.
#[allow(clippy::print_stdout, reason = "its test reads it")]
pub async fn describe(consumer: Consumer) {
    let event = Event::new([&serde_json::json!({ "id": "o-1" })]);
    Bench::new(consumer.clone()).run(event).await;
    match consumer.store(MemoryStore::new()).init().await {
        Ok(()) => println!("starts"),
        Err(error) => println!("{error}"),
    }
}
