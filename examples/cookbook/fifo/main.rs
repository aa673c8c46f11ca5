//! Keeps the address of each customer up to date, in the order in which it changed.
//!
//! The producer sends each change with the customer's id as message group, and numbers the changes of a customer.

use std::num::NonZeroU32;

use serde::Deserialize;
use sqs_once::consumer::Queue;
use sqs_once::{Error, HandlerError, ResultExt};

#[derive(Deserialize)]
struct AddressChanged {
    customer_id: String,
    version: u64,
    address: String,
}

/// How often a change is tried. Then the later changes of its customer wait behind it in the dead-letter queue.
const DELIVERIES: NonZeroU32 = NonZeroU32::new(5).expect("5 is not zero");

/// If a change fails, the later changes of its customer return to the queue with it. Other customers go on.
///
/// SQS removes copies that are sent within five minutes. The key also recognises later ones.
#[sqs_once::handler(key = (change.customer_id, change.version), namespace = "addresses")]
async fn update(change: AddressChanged) -> Result<(), HandlerError> {
    if change.address.is_empty() {
        return Err("the address is empty").terminal();
    }
    tracing::info!(customer = change.customer_id, "moved"); // your effect
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let queue = Queue::any().keep_order(DELIVERIES);
    sqs_once::run(update::consumer().queue(queue)).await
}

#[cfg(test)]
mod tests;
