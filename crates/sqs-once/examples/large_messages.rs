//! Sends and handles large messages, for `.ci/large_messages.py`, which does the same with the Python library on a stand-in
//! for AWS.
//!
//! `large_messages send QUEUE_URL BUCKET PREFIX` sends the body that it reads. `large_messages handle` handles the event that it
//! reads, and prints the ids of the failed messages and the bodies of the others.

#![allow(clippy::print_stdout, reason = "its output is its answer")]

use std::io::{Read, stdin};

use aws_config::BehaviorVersion;
use serde_json::{Value, json};
use sqs_once::body::LargeMessages;
use sqs_once::key::MessageKey;
use sqs_once::producer::{Offload, Outgoing};
use sqs_once::testing::{Bench, Event};
use sqs_once::{Consumer, Error, Handler};
use tokio::sync::mpsc::unbounded_channel;

async fn send(queue_url: &str, bucket: &str, prefix: &str, body: String) -> Result<(), Error> {
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
    let config = config.load().await;
    let bodies = Offload::new(aws_sdk_s3::Client::new(&config), bucket, prefix);
    let message = aws_sdk_sqs::Client::new(&config).send_message();
    let message = message.queue_url(queue_url).message_body(body);
    let message = Outgoing::new("order-7")?
        .offload_onto(message, &bodies)
        .await?;
    message.send().await?;
    Ok(())
}

async fn handle(event: String) {
    let (handled, mut bodies) = unbounded_channel();
    let consumer = Consumer::new(
        Handler::decode(sqs_once::body::Text)
            .key(MessageKey::producer())
            .call(move |body: String| {
                let sent = handled.send(body);
                async move { sent.map_err(|_| "nobody listens") }
            }),
    )
    .large_messages(LargeMessages::from_env());
    let answer = Bench::new(consumer).run(Event::from_json(event)).await;
    let mut all: Vec<Value> = Vec::new();
    while let Ok(body) = bodies.try_recv() {
        all.push(body.into());
    }
    println!("{}", json!({ "failed": answer.retried(), "bodies": all }));
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut input = String::new();
    stdin().read_to_string(&mut input)?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["send", queue_url, bucket, prefix] => send(queue_url, bucket, prefix, input).await,
        ["handle"] => {
            handle(input).await;
            Ok(())
        }
        _ => Err("expected send QUEUE_URL BUCKET PREFIX, or handle".into()),
    }
}
