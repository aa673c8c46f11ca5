//! Parsing Lambda's event: the fields that are read, and the effect of a broken record on the others.

use crate::support::{Notes, in_simulated_time, values};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use sqs_once::consumer::EventError;
use sqs_once::extract::Message;
use sqs_once::testing::{Answer, Bench, Event};
use sqs_once::{Consumer, Handler};
use std::sync::Arc;

const FIFO: &str = r#""eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders.fifo""#;

/// Bodies that can't be read, each with the reason.
const NO_BODIES: [(&str, &str); 7] = [
    (r#""body": "{}", "body": "{}""#, "the message has no body"),
    (r#""someday": 1"#, "the message has no body"),
    (r#""body": null"#, "the message has no body"),
    (r#""body": "\ud800""#, "is not valid Unicode"),
    (
        r#""body": "\udc00 is the wrong half""#,
        "is not valid Unicode",
    ),
    (
        r#""body": 1e999"#,
        "the message's body is a number or a boolean and not text",
    ),
    (
        r#""body": {"id": "a"}"#,
        "the message's body is an object and not text",
    ),
];

/// Metadata that can't be read, or not as a whole.
const ODD: [&str; 16] = [
    r#""receiptHandle": [[[[]]]]"#,
    r#""attributes": []"#,
    r#""attributes": {"SenderId": null}"#,
    r#""attributes": {"ApproximateReceiveCount": 3, "AWSTraceHeader": null}"#,
    r#""messageAttributes": "none""#,
    r#""messageAttributes": []"#,
    r#""messageAttributes": {"a": null}"#,
    r#""messageAttributes": {"a": {"binaryValue": "?"}}"#,
    r#""messageAttributes": {"a": {"dataType": "String", "stringListValues": null, "binaryListValues": null}}"#,
    r#""messageAttributes": {"a": {"dataType": 1, "stringValue": {}}}"#,
    r#""eventSourceARN": 7"#,
    r#""receiptHandle": "1", "receiptHandle": "2""#,
    r#""attributes": {"SenderId": "\ud800"}"#,
    r#""attributes": 1"#,
    r#""messageAttributes": {"\ud800": {}}"#,
    r#""receiptHandle": "\ud800""#,
];

/// Fields that nobody asks for.
const UNREAD: [&str; 6] = [
    r#""md5OfBody": 7"#,
    r#""awsRegion": "\ud800""#,
    r#""eventSource": null, "eventSource": {}"#,
    r#""someday": [[[1e999]]]"#,
    r#""\u0000": {}"#,
    r#""attributes": {"ApproximateReceiveCount": "many", "New": "1"}"#,
];

fn handler() -> Handler {
    values().call(async |_: Value| {})
}

fn event(records: &[String]) -> Event {
    Event::from_json(format!(r#"{{ "Records": [{}] }}"#, records.join(", ")))
}

fn record(id: usize, more: &str) -> String {
    format!(r#"{{ "messageId": "m-{id}", {more} }}"#)
}

fn good(id: usize) -> String {
    record(id, &format!(r#""body": "{{\"id\": \"{id}\"}}""#))
}

/// The messages that the handler gets of these records.
async fn messages(records: &[&str]) -> Vec<Arc<Message>> {
    let (seen, notes) = Notes::pair();
    let handler = values().call(notes.of_both(|_: Value, message: Arc<Message>| message));
    let records: Vec<_> = records.iter().map(ToString::to_string).collect();
    let answer = Bench::new(handler).run(event(&records)).await;
    answer.assert_all_acknowledged();
    seen.take()
}

fn run(records: &[String]) -> Answer {
    in_simulated_time(Bench::new(handler()).run(event(records)))
}

proptest! {
    #[test]
    fn records_without_a_readable_body_fail_alone_wherever_they_stand(
        breakages in prop::collection::vec(prop::option::of(select(&NO_BODIES[..])), 0..9)
    ) {
        let records = breakages.iter().enumerate().map(|(id, breakage)| match breakage {
            Some((breakage, _)) => record(id, breakage),
            None => good(id),
        });
        let answer = run(&records.collect::<Vec<_>>());
        for (id, breakage) in breakages.iter().enumerate() {
            let id = format!("m-{id}");
            match breakage {
                Some((_, reason)) => answer.assert_terminal(&id).assert_reason(&id, reason),
                None => answer.assert_processed(&id),
            };
        }
    }
}

#[test]
fn odd_metadata_and_fields_that_nobody_asks_for_cost_no_message_its_body() {
    let fields = ODD.iter().chain(&UNREAD).enumerate();
    let records = fields.map(|(id, field)| good(id).replacen('{', &format!("{{ {field},"), 1));
    run(&records.collect::<Vec<_>>()).assert_all_acknowledged();
}

#[tokio::test]
async fn of_odd_metadata_what_can_be_read_is_read() {
    let record = r#"{
        "messageId": "m", "body": "{\"id\": \"1\"}", "eventSourceARN": "arn:a",
        "attributes": { "ApproximateReceiveCount": 3, "AWSTraceHeader": null, "SenderId": "me" },
        "messageAttributes": {
            "text": { "stringValue": "seven", "stringListValues": null, "dataType": "String" },
            "number": { "stringValue": 7, "dataType": "Number" },
            "none": null
        }
    }"#;
    let message = &messages(&[record]).await[0];
    assert_eq!(message.receive_count(), Some(3));
    assert_eq!(message.system_attribute("SenderId"), Some("me"));
    assert_eq!(message.system_attribute("AWSTraceHeader"), None);
    assert_eq!(message.attribute("text"), Some("seven"));
    assert_eq!(message.attribute("number"), Some("7"));
    assert_eq!(message.queue_arn(), Some("arn:a"));
}

#[tokio::test]
async fn a_bare_array_of_records_is_refused_unless_the_consumer_is_the_target_of_a_pipe() {
    let event = Event::from_json(format!("[{}, {}]", good(0), record(1, r#""body": "{""#)));
    let refused = Bench::new(handler()).try_run(&event).await.unwrap_err();
    assert!(matches!(refused, EventError::NoRecords));
    assert!(refused.to_string().contains("event source mapping"));
    let target = Bench::new(Consumer::new(handler()).pipe_target());
    let answer = target.run(&event).await;
    answer.assert_processed("m-0").assert_retried(["m-1"]);
    let none = target.run(Event::from_json("[]")).await;
    none.assert_all_acknowledged();
    // It may have an event source mapping, too.
    let mapped = target.run(self::event(&[good(2)])).await;
    mapped.assert_processed("m-2");
}

#[test]
fn a_broken_record_stops_its_own_group_and_no_other() {
    let grouped = |id, group: &str, more: &str| {
        let group = format!(r#""attributes": {{ "MessageGroupId": "{group}" }}"#);
        record(id, &format!(r#"{FIFO}, {group}, "body": {more}"#))
    };
    let answer = run(&[
        grouped(0, "g", r#""{\"id\": \"0\"}""#),
        grouped(1, "g", r#""\ud800""#),
        grouped(2, "h", r#""{\"id\": \"2\"}""#),
        grouped(3, "g", r#""{\"id\": \"3\"}""#),
    ]);
    answer.assert_processed("m-0").assert_processed("m-2");
    answer.assert_retried(["m-1", "m-3"]);

    // This also holds if a field next to the group is broken.
    let attributes = r#""attributes": { "MessageGroupId": "g", "SenderId": 7 }"#;
    let broken = record(0, &format!(r#"{FIFO}, {attributes}, "body": "{{}}""#));
    run(&[broken, grouped(1, "g", r#""{\"id\": \"1\"}""#)])
        .assert_terminal("m-0")
        .assert_failed("m-1");

    // This also holds if only broken records show that the queue is FIFO.
    let broken = [0, 1].map(|id| grouped(id, "g", r#""\ud800""#));
    run(&broken).assert_terminal("m-0").assert_failed("m-1");
}

#[tokio::test]
async fn a_message_says_what_its_record_says() {
    let mut seen = messages(&[
        r#"{
            "\u006dessageId": "m-\ud83d\ude00",
            "body": "{\"id\": \"\\u00fc\u00fc\"}",
            "eventSourceARN": "arn:a",
            "attributes": {
                "ApproximateReceiveCount": "3", "SenderId": "first", "\n": "\"", "SenderId": "last", "Empty": ""
            },
            "messageAttributes": {
                "t": { "stringValue": "seven\t7", "dataType": "String", "someday": 1 },
                "b": { "binaryValue": "QUJD", "dataType": "Binary" }
            }
        }"#,
        r#"{ "messageId": "2", "body": "{\"id\": \"2\"}", "eventSourceARN": "arn:a", "attributes": null }"#,
        r#"{ "messageId": "3", "body": "{\"id\": \"3\"}", "eventSourceARN": "arn:b", "messageAttributes": null }"#,
        r#"{ "messageId": "4", "body": "{\"id\": \"4\"}" }"#,
    ])
    .await;
    // The key of the message that was delivered before is read first.
    seen.sort_by_key(|message| message.receive_count().is_none());
    let queues: Vec<_> = seen.iter().map(|message| message.queue_arn()).collect();
    assert_eq!(queues, [Some("arn:a"), Some("arn:a"), Some("arn:b"), None]);
    let message = &seen[0];
    assert_eq!(message.id(), "m-\u{1f600}");
    assert_eq!(message.body(), Some(r#"{"id": "\u00fcü"}"#));
    assert_eq!(message.receive_count(), Some(3));
    assert_eq!(message.system_attribute("SenderId"), Some("last"));
    assert_eq!(message.system_attribute("\n"), Some("\""));
    assert_eq!(message.system_attribute("Empty"), Some(""));
    assert_eq!(message.system_attribute("last"), None);
    assert_eq!(message.attribute("t"), Some("seven\t7"));
    assert_eq!(message.attribute("b"), None);
    let mut others = seen[1..].iter();
    assert!(others.all(|message| message.system_attribute("SenderId").is_none()));
}
