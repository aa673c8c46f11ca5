//! Serves queues on loopback until it is interrupted, for any SQS client. First prints the endpoint:
//!
//! ```sh
//! cargo run -p sqs-once-local --example sqs
//! aws --endpoint-url http://127.0.0.1:40001 sqs list-queues
//! ```

#![allow(clippy::print_stdout, reason = "an example")]

use sqs_once_local::{LocalSqs, QueueSettings, Queues, Redrive};
use std::error::Error;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut queues = Queues::default();
    for (queue, dead_letters) in [
        ("orders", "orders-dead"),
        ("orders.fifo", "orders-dead.fifo"),
    ] {
        queues.create(dead_letters, QueueSettings::default())?;
        let settings = QueueSettings {
            redrive: Some(Redrive {
                to: dead_letters.to_owned(),
                max_receive_count: 2,
            }),
            ..QueueSettings::default()
        };
        queues.create(queue, settings)?;
    }
    let by_content = QueueSettings {
        content_based_deduplication: true,
        ..QueueSettings::default()
    };
    queues.create("by-content.fifo", by_content)?;
    let slow = QueueSettings {
        delay: Duration::from_secs(900),
        ..QueueSettings::default()
    };
    queues.create("slow", slow)?;

    let sqs = LocalSqs::start(queues).await?;
    println!("{}", sqs.endpoint());
    tokio::signal::ctrl_c().await?;
    Ok(())
}
