//! Invoices each order that an SNS topic announces. Other functions subscribe to the same topic with their own queues.

use serde::Deserialize;
use sqs_once::body::Sns;
use sqs_once::extract::SnsMeta;
use sqs_once::{Error, HandlerError, ResultExt};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
}

/// The namespace is this subscriber's own: subscribers that share a table each handle every order.
#[sqs_once::handler(key = order.order_id, envelope = Sns, namespace = "invoices")]
async fn invoice(order: OrderPlaced, sns: SnsMeta) -> Result<(), HandlerError> {
    if order.amount_cents == 0 {
        return Err("the amount is zero").terminal();
    }
    tracing::info!(order = order.order_id, topic = sns.topic_arn, "invoiced"); // your effect
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(invoice::consumer()).await
}

#[cfg(test)]
mod tests;
