//! Tests how events are built from various inputs.

use serde_json::{Map, Value, json};
use sqs_once_local::{Event, NewMessage};

fn records(event: &Event) -> Vec<Value> {
    let event: Value = serde_json::from_slice(&event.payload()).unwrap();
    event["Records"].as_array().unwrap().clone()
}

fn bodies(text: &str) -> Vec<Value> {
    let records = records(&Event::parse(text, "orders").unwrap());
    records
        .iter()
        .map(|record| record["body"].clone())
        .collect()
}

#[test]
fn an_sqs_event_is_sent_byte_for_byte() {
    let text =
        r#"{ "Records": [{"messageId":"a","body":"\u0041"}, {"no": "id"}, {"messageId":"b"}] }"#;
    let event = Event::parse(text, "orders").unwrap();
    assert_eq!(event.payload(), text);
    assert_eq!(event.message_ids(), ["a", "b"]);
    // The function decides how to treat these records.
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
    let arn = "arn:aws:sqs:eu-central-1:123456789012:orders";
    assert_eq!(record["eventSourceARN"], arn);
    assert_eq!(record["awsRegion"], "eu-central-1");
    let attributes = &record["attributes"];
    assert_eq!(attributes["ApproximateReceiveCount"], "1");
    let sent = attributes["SentTimestamp"].as_str().unwrap();
    assert!(sent.parse::<u64>().is_ok());
    assert_eq!(record["messageAttributes"], json!({}));
    assert!(!record["receiptHandle"].as_str().unwrap().is_empty());
    assert_eq!(record["messageId"], event.message_ids()[0]);
    assert_eq!(event.message_ids()[0].len(), 36);
}

#[test]
fn other_text_and_other_json_is_one_body() {
    for text in [
        "hello",
        "two\nlines",
        "42",
        "\"quoted\"",
        "null",
        "[1, 2]",
        "{\n  \"order_id\": \"o-1\"\n}",
        r#"{"body": "of water"}"#,
    ] {
        assert_eq!(bodies(text), [text]);
    }
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
    for field in ["body", "eventSourceARN"] {
        assert_eq!(record[field], message[field]);
    }
    for attribute in ["ApproximateReceiveCount", "MessageGroupId"] {
        assert_eq!(
            record["attributes"][attribute],
            message["attributes"][attribute]
        );
    }
    assert!(record["attributes"]["SenderId"].is_string());
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
    for (field, original) in [
        ("messageId", "MessageId"),
        ("receiptHandle", "ReceiptHandle"),
        ("md5OfBody", "MD5OfBody"),
        ("body", "Body"),
    ] {
        assert_eq!(record[field], message[original]);
    }
    assert_eq!(record["attributes"]["ApproximateReceiveCount"], "2");
    let attributes = json!({"Kind": {"stringValue": "order", "dataType": "String"}});
    assert_eq!(record["messageAttributes"], attributes);
}

#[test]
fn a_body_with_message_attributes_is_a_message_without_an_id() {
    let attributes = json!({"tenant": {"stringValue": "acme", "dataType": "String"}});
    let message = json!({"body": "hello", "messageAttributes": attributes});
    let event = Event::parse(&message.to_string(), "orders").unwrap();
    let record = &records(&event)[0];
    assert_eq!(record["body"], "hello");
    assert_eq!(record["messageAttributes"], attributes);
    assert_eq!(record["messageId"], event.message_ids()[0]);
}

#[test]
fn nothing_and_broken_json_are_errors_and_not_bodies() {
    let (empty, json) = ("the event is empty", "is not valid JSON");
    for (text, expected) in [
        ("", empty),
        (" \n ", empty),
        ("\u{feff}", empty),
        ("{\"Records\": [", json),
        ("{\"order_id\": o-1}", json),
        ("[1,", json),
        ("{\n \"Records\": [}\n]", json),
        (
            "{\"a\": 1}\n{\"a\": 2}\n{\"a\":",
            "line 3 is not valid JSON",
        ),
    ] {
        let error = Event::parse(text, "orders").unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn an_event_of_s3_is_a_body_as_in_a_queue_and_a_list_of_messages_is_a_batch() {
    let of_s3 = r#"{"Records":[{"eventSource":"aws:s3","s3":{}}]}"#;
    assert_eq!(bodies(of_s3), [of_s3]);
    let pipe = r#"[{"messageId": "a", "body": "x"}, {"MessageId": "b", "Body": "y"}]"#;
    assert_eq!(bodies(pipe), ["x", "y"]);
    for body in ["[]", "[1,2]", r#"[{"messageId":"a","body":"x"},1]"#] {
        assert_eq!(bodies(body), [body]);
    }
}

#[test]
fn a_record_can_be_sent_with_what_sqs_knows_of_it() {
    let event = json!({"Records": [{
        "messageId": "m-1", "body": "{}",
        "attributes": {"MessageGroupId": "a", "MessageDeduplicationId": "d", "AWSTraceHeader": "Root=1"},
        "messageAttributes": {"tenant": {
            "dataType": "String", "stringValue": "acme", "binaryValue": null, "stringListValues": [],
        }},
    }]});
    let event = Event::parse(&event.to_string(), "orders").unwrap();
    let tenant = json!({"DataType": "String", "StringValue": "acme"});
    let expected = NewMessage {
        attributes: Map::from_iter([("tenant".to_owned(), tenant)]),
        trace_header: Some("Root=1".to_owned()),
        ..NewMessage::new("m-1", "{}").in_group("a", "d")
    };
    assert_eq!(event.messages().unwrap(), [expected]);
}

#[test]
fn an_event_without_messages_sends_none() {
    for text in [r#"{"Records": 1}"#, r#"{"Records": [{"messageId": "m"}]}"#] {
        let error = Event::parse(text, "orders")
            .unwrap()
            .messages()
            .unwrap_err();
        assert!(error.to_string().contains("`Records`"), "{text}: {error}");
    }
}
