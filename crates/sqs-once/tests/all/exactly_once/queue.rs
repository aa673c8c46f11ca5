//! Messages, and SQS's reaction to an answer.

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Context, LambdaEvent};
use serde::Deserialize;
use serde_json::json;
use sqs_once::EventError;
use sqs_once::time::Timestamp;

/// The payload.
#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
}

/// A message about the order that is its key.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) key: String,
}

/// An invocation with these messages.
pub(crate) fn event(batch: &[Message], ends_at: Timestamp) -> LambdaEvent<SqsEvent> {
    let record = |message: &Message| {
        json!({
            "messageId": message.id,
            "body": json!({ "id": message.key }).to_string(),
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
        })
    };
    let records: Vec<_> = batch.iter().map(record).collect();
    let event = serde_json::from_value(json!({ "Records": records })).unwrap();
    let mut context = Context::default();
    context.deadline = ends_at.as_millis();
    LambdaEvent::new(event, context)
}

/// The messages that SQS may delete. An invocation that dies or fails acknowledges none.
pub(crate) fn acknowledged(
    answer: Option<Result<SqsBatchResponse, EventError>>,
    mut batch: Vec<Message>,
) -> Vec<Message> {
    let Some(Ok(answer)) = answer else {
        return Vec::new();
    };
    let failures = answer.batch_item_failures;
    batch.retain(|message| {
        !failures
            .iter()
            .any(|failure| failure.item_identifier == message.id)
    });
    batch
}
