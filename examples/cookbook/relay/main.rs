//! Sends the messages of an outbox table to a queue. Lambda calls it with the table's stream.
//!
//! It sends each message at least once. The receivers use the message's id as their business key.

use aws_config::BehaviorVersion;
use aws_lambda_events::dynamodb::Event;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Deserialize;
use sqs_once::sdk::sqs::Client;
use sqs_once::sdk::sqs::types::SendMessageBatchRequestEntry;

#[derive(Deserialize)]
struct OutboxMessage {
    body: String,
}

/// On an error Lambda calls the function with the same part of the stream again, for the 24 hours that a stream lasts.
async fn relay(sqs: &Client, queue: &str, event: Event) -> Result<(), Error> {
    let records = event.records.into_iter();
    let images = records.map(|record| record.change.new_image);
    // Without an image: a message that was deleted.
    let messages = images.filter(|image| !image.is_empty());
    let messages: Vec<OutboxMessage> = messages
        .map(serde_dynamo::from_item)
        .collect::<Result<_, _>>()?;
    // SQS takes ten messages in a request.
    for messages in messages.chunks(10) {
        let mut request = sqs.send_message_batch().queue_url(queue);
        for (index, message) in messages.iter().enumerate() {
            let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
            request = request.entries(entry.message_body(&message.body).build()?);
        }
        // A request can succeed for some messages and fail for others.
        let answer = request.send().await?;
        if answer.successful().len() < messages.len() {
            return Err(format!("SQS did not take every message: {:?}", answer.failed()).into());
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let tls = tls::Provider::Rustls(CryptoMode::Ring);
    let http = Builder::new().tls_provider(tls).build_https();
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    let config = config.load().await;
    let (sqs, queue) = (Client::new(&config), std::env::var("QUEUE_URL")?);
    lambda_runtime::run(service_fn(|event: LambdaEvent<Event>| {
        relay(&sqs, &queue, event.payload)
    }))
    .await
}

#[cfg(test)]
mod tests;
