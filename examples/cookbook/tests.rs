//! The tests of all recipes, and of what they have in common.

#![allow(dead_code, reason = "the `main` of each recipe")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod deployment;
mod service;

#[path = "charge/main.rs"]
mod charge;
#[path = "custom-store/main.rs"]
mod custom_store;
#[path = "email/main.rs"]
mod email;
#[path = "eventbridge/main.rs"]
mod eventbridge;
#[path = "fifo/main.rs"]
mod fifo;
#[path = "metrique/main.rs"]
mod metrique_beside;
#[path = "outbox/main.rs"]
mod outbox;
#[path = "postgres/main.rs"]
mod postgres;
#[path = "protobuf/main.rs"]
mod protobuf;
#[path = "relay/main.rs"]
mod relay;
#[path = "replay/main.rs"]
mod replay;
#[path = "s3-import/main.rs"]
mod s3_import;
#[path = "schedule/main.rs"]
mod schedule;
#[path = "sns/main.rs"]
mod sns;
#[path = "tenants/main.rs"]
mod tenants;
#[path = "transaction/main.rs"]
mod transaction;
#[path = "without-sqs/main.rs"]
mod without_sqs;

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::Consumer;
use sqs_once::testing::{Event, Record};
use sqs_once::time::{Clock, SystemClock};
use tower_service::Service as _;

/// A sample event, as `cargo sqs-once invoke` sends it.
fn sample(text: &str) -> Event {
    let event = sqs_once_local::Event::parse(text, "queue").unwrap();
    Event::from_json(String::from_utf8(event.payload().to_vec()).unwrap())
}

/// Calls a consumer with its own store, as Lambda does, and returns the ids of the messages that go back to the queue.
async fn run(consumer: &Consumer, records: impl IntoIterator<Item = Record>) -> Vec<String> {
    let event: SqsEvent = serde_json::from_str(Event::new(records).as_json()).unwrap();
    let mut context = Context::default();
    context.deadline = (SystemClock.now() + Duration::from_secs(30)).as_millis();
    let answer = consumer
        .clone()
        .call(LambdaEvent::new(event, context))
        .await;
    let failures = answer.unwrap().batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier).collect()
}
