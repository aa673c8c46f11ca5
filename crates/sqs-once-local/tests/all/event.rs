//! Tests how events are built from various inputs.

use serde_json::{Value, json};
use sqs_once_local::{Event, EventError};

fn records(event: &Event) -> Vec<Value> {
    let event: Value = serde_json::from_slice(&event.payload()).unwrap();
    event["Records"].as_array().unwrap().clone()
}

fn bodies(event: &Event) -> Vec<String> {
    records(event)
        .iter()
        .map(|record| record["body"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_sqs_event_is_sent_byte_for_byte() {
    let text =
        r#"{ "Records": [{"messageId":"a","body":"\u0041"}, {"no": "id"}, {"messageId":"b"}] }"#;
    let event = Event::parse(text, "orders").unwrap();
    assert_eq!(event.payload(), text);
    assert_eq!(event.message_ids(), ["a", "b"]);
}

#[test]
fn an_event_whose_records_are_no_list_is_for_the_function_to_judge() {
    let event = Event::parse(r#"{"Records": "none"}"#, "orders").unwrap();
    assert_eq!(event.payload(), r#"{"Records": "none"}"#);
    assert!(event.message_ids().is_empty());
}

#[test]
fn a_bare_body_becomes_a_record_with_everything_lambda_sends() {
    let event = Event::parse("{\"order_id\": \"o-1\"}\n", "orders").unwrap();
    let records = records(&event);
    let [record] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!(record["body"], r#"{"order_id": "o-1"}"#);
    assert_eq!(record["md5OfBody"], "db8b573fa69dbc659248dbbf0159fd1b");
    assert_eq!(record["eventSource"], "aws:sqs");
    assert_eq!(
        record["eventSourceARN"],
        "arn:aws:sqs:eu-central-1:123456789012:orders"
    );
    assert_eq!(record["awsRegion"], "eu-central-1");
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "1");
    assert!(
        record["attributes"]["SentTimestamp"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
    assert_eq!(record["messageAttributes"], json!({}));
    assert!(!record["receiptHandle"].as_str().unwrap().is_empty());
    assert_eq!(record["messageId"], event.message_ids()[0]);
    assert_eq!(event.message_ids()[0].len(), 36);
}

#[test]
fn text_that_is_not_json_is_a_body_too() {
    for text in ["hello", "two\nlines", "42", "\"quoted\"", "null"] {
        assert_eq!(bodies(&Event::parse(text, "orders").unwrap()), [text]);
    }
}

#[test]
fn a_json_list_is_one_body() {
    assert_eq!(
        bodies(&Event::parse("[1, 2]", "orders").unwrap()),
        ["[1, 2]"]
    );
}

#[test]
fn json_over_several_lines_is_one_body() {
    let text = "{\n  \"order_id\": \"o-1\"\n}";
    assert_eq!(bodies(&Event::parse(text, "orders").unwrap()), [text]);
}

#[test]
fn json_lines_become_a_record_a_line() {
    let text = "{\"order_id\": \"o-1\"}\n\n{\"order_id\": \"o-2\"}\r\n";
    let event = Event::parse(text, "orders").unwrap();
    assert_eq!(
        bodies(&event),
        [r#"{"order_id": "o-1"}"#, r#"{"order_id": "o-2"}"#]
    );
    assert_ne!(event.message_ids()[0], event.message_ids()[1]);
}

#[test]
fn one_message_as_lambda_writes_it_keeps_what_it_has() {
    let message = json!({
        "messageId": "m-1",
        "body": "hello",
        "attributes": {"ApproximateReceiveCount": "3", "MessageGroupId": "g"},
        "eventSourceARN": "arn:aws:sqs:eu-west-1:1:other.fifo",
    });
    let event = Event::parse(&message.to_string(), "orders").unwrap();
    let record = &records(&event)[0];
    assert_eq!(event.message_ids(), ["m-1"]);
    assert_eq!(record["body"], "hello");
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "3");
    assert_eq!(record["attributes"]["MessageGroupId"], "g");
    assert!(record["attributes"]["SenderId"].is_string());
    assert_eq!(
        record["eventSourceARN"],
        "arn:aws:sqs:eu-west-1:1:other.fifo"
    );
    assert_eq!(record["eventSource"], "aws:sqs");
}

#[test]
fn one_message_as_the_sqs_api_writes_it_is_respelled() {
    let message = json!({
        "MessageId": "m-1",
        "ReceiptHandle": "r-1",
        "MD5OfBody": "5d41402abc4b2a76b9719d911017c592",
        "Body": "hello",
        "Attributes": {"ApproximateReceiveCount": "2"},
        "MessageAttributes": {"Kind": {"StringValue": "order", "DataType": "String"}},
    });
    let event = Event::parse(&message.to_string(), "orders").unwrap();
    let record = &records(&event)[0];
    assert_eq!(record["messageId"], "m-1");
    assert_eq!(record["receiptHandle"], "r-1");
    assert_eq!(record["md5OfBody"], "5d41402abc4b2a76b9719d911017c592");
    assert_eq!(record["body"], "hello");
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "2");
    assert_eq!(
        record["messageAttributes"],
        json!({"Kind": {"stringValue": "order", "dataType": "String"}})
    );
}

#[test]
fn a_body_that_has_a_field_called_body_is_still_a_body() {
    let text = r#"{"body": "of water"}"#;
    assert_eq!(bodies(&Event::parse(text, "orders").unwrap()), [text]);
}

#[test]
fn nothing_is_an_error() {
    for text in ["", " \n ", "\u{feff}"] {
        assert!(
            matches!(Event::parse(text, "orders"), Err(EventError::Empty)),
            "{text:?}"
        );
    }
}

#[test]
fn broken_json_is_an_error_and_not_a_body() {
    for text in [
        "{\"Records\": [",
        "{\"order_id\": o-1}",
        "[1,",
        "{\n \"Records\": [}\n]",
    ] {
        assert!(
            matches!(Event::parse(text, "orders"), Err(EventError::Json { .. })),
            "{text:?}"
        );
    }
}

#[test]
fn a_broken_line_of_json_lines_is_named() {
    let error = Event::parse("{\"a\": 1}\n{\"a\": 2}\n{\"a\":", "orders").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the event looks like JSON Lines, but line 3 is not valid JSON"
    );
}
