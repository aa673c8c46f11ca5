//! Calls a consumer with its own store, as Lambda does.

use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::Consumer;
use sqs_once::store::Timestamp;
use sqs_once::testing::{Event, Record};
use tower_service::Service as _;

/// Returns the ids of the messages that go back to the queue.
pub(crate) async fn run(
    consumer: &Consumer,
    records: impl IntoIterator<Item = Record>,
) -> Vec<String> {
    let event: SqsEvent = serde_json::from_str(Event::new(records).as_json()).unwrap();
    let mut context = Context::default();
    context.deadline = (Timestamp::now() + Duration::from_secs(30)).as_millis();
    let answer = consumer
        .clone()
        .call(LambdaEvent::new(event, context))
        .await;
    let failures = answer.unwrap().batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier).collect()
}
