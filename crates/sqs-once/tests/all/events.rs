//! Parsing Lambda's event: the fields that are read, and the effect of a broken record on the others.

use crate::support::{Notes, values};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use sqs_once::Handler;
use sqs_once::extract::Message;
use sqs_once::testing::{Answer, Bench, Event};
use std::sync::Arc;

const FIFO: &str = r#""eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders.fifo""#;

/// Errors in a record that do not hide its message ID.
const BREAKAGES: [&str; 12] = [
    r#""body": "\ud800""#,
    r#""body": "\udc00 is the wrong half""#,
    r#""body": 1e999"#,
    r#""body": {"id": "a"}"#,
    r#""body": "{}", "body": "{}""#,
    r#""receiptHandle": [[[[]]]]"#,
    r#""attributes": []"#,
    r#""attributes": {"SenderId": 7}"#,
    r#""attributes": {"SenderId": null}"#,
    r#""messageAttributes": "none""#,
    r#""messageAttributes": {"a": {"binaryValue": "?"}}"#,
    r#""eventSourceARN": 7"#,
];

/// Unused fields, whose values cannot break a record.
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

fn run(records: &[String]) -> Answer {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(Bench::new(handler()).run(event(records)))
}

proptest! {
    #[test]
    fn broken_records_fail_alone_wherever_they_stand(
        breakages in prop::collection::vec(prop::option::of(select(&BREAKAGES[..])), 0..9)
    ) {
        let records = breakages.iter().enumerate().map(|(id, breakage)| match breakage {
            Some(breakage) => record(id, breakage),
            None => good(id),
        });
        let answer = run(&records.collect::<Vec<_>>());
        for (id, breakage) in breakages.iter().enumerate() {
            let id = format!("m-{id}");
            match breakage {
                Some(_) => answer.assert_terminal(&id).assert_reason(&id, "no body"),
                None => answer.assert_processed(&id),
            };
        }
    }
}

#[test]
fn fields_that_nobody_asks_for_break_no_record() {
    let fields = UNREAD.iter().enumerate();
    let records = fields.map(|(id, field)| good(id).replacen('{', &format!("{{ {field},"), 1));
    run(&records.collect::<Vec<_>>()).assert_all_acknowledged();
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
    let (seen, notes) = Notes::pair();
    let handler = values().call(notes.of_both(|_: Value, message: Arc<Message>| message));
    let records = [
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
    ];
    let event = event(&records.map(str::to_owned));
    let answer = Bench::new(handler).run(event).await;
    answer.assert_all_acknowledged();

    let seen = seen.all();
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
