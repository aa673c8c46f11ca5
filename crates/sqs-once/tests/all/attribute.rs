//! Effects of the attribute's options on the running consumer.

use crate::support::{Bench, Order, Seen, body, event, order};
use serde_json::json;
use sqs_once::body::{Sns, Text};
use sqs_once::{Batch, BatchOutcome, State, batch_handler, handler};

#[handler(key = line, decode = Text, envelope = Sns)]
async fn unwrapped(line: String, State(seen): State<Seen>) {
    seen.lock().unwrap().push(line);
}

/// The text, published to an SNS topic to which the queue subscribes.
fn published(text: &str) -> serde_json::Value {
    let envelope = json!({
        "Type": "Notification",
        "MessageId": "p-1",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:lines",
        "Message": text,
        "Timestamp": "2026-03-01T12:00:00.000Z",
    });
    body(&envelope.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_message_is_opened_and_decoded_as_the_attribute_says() {
    let bench = Bench::new();
    let seen = Seen::default();
    let consumer = bench.consumer(unwrapped::consumer().state(seen.clone()));
    let records = [published("no json"), published("no json")];
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["no json"]);
}

#[batch_handler(key = |line| line, decode = Text, envelope = Sns)]
async fn together(lines: Batch<String>, State(seen): State<Seen>) -> BatchOutcome {
    seen.lock().unwrap().extend(lines.payloads().cloned());
    lines.all_succeeded()
}

#[tokio::test(start_paused = true)]
async fn a_batch_handlers_options_are_those_of_a_handler() {
    let bench = Bench::new();
    let seen = Seen::default();
    let consumer = bench.consumer(together::consumer().state(seen.clone()));
    let records = [published("one"), published("one")];
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["one"]);
}

#[handler(key = sqs_once::key::nfc(&order.id), namespace = "test")]
async fn in_one_form(order: Order, State(seen): State<Seen>) {
    seen.lock().unwrap().push(order.id);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_one_unicode_form_recognises_a_text_in_the_other() {
    let (bench, seen) = (Bench::new(), Seen::default());
    let consumer = bench.consumer(in_one_form::consumer().state(seen.clone()));
    let batch = ["Zo\u{eb}", "Zoe\u{308}", "Zoe"].map(order);
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["Zo\u{eb}", "Zoe"]);
}
