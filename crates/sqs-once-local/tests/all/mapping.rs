//! Tests the event source mapping and the function's own calls to SQS, over real HTTP.

use crate::support::http;
use serde_json::{Value, json};
use sqs_once_local::{
    EventSourceMapping, LocalSqs, NewMessage, QueueSettings, Queues, Received, ResponseError,
};
use std::time::{Duration, SystemTime};

const QUEUE: &str = "orders";
const FIFO: &str = "orders.fifo";

async fn sqs(ids: &[&str]) -> LocalSqs {
    let mut queues = Queues::default();
    for queue in [QUEUE, FIFO] {
        queues.create(queue, QueueSettings::default()).unwrap();
    }
    for id in ids {
        let message = NewMessage::new(*id, format!("body of {id}"));
        queues.send(QUEUE, message, SystemTime::now()).unwrap();
    }
    LocalSqs::start(queues).await.unwrap()
}

fn ids(received: &[Received]) -> Vec<&str> {
    received.iter().map(|one| one.message.id.as_str()).collect()
}

/// Where the messages `m-1` and `m-2` are after an answer: deleted, returned, and why all were refused.
async fn after(answer: &str) -> (Vec<String>, Vec<String>, Option<ResponseError>) {
    let sqs = sqs(&["m-1", "m-2"]).await;
    let mapping = EventSourceMapping::new(&sqs, QUEUE, 10);
    let now = SystemTime::now();
    let batch = mapping.poll(now).unwrap().unwrap();
    let settled = mapping.settle(batch, answer.as_bytes(), now).unwrap();
    let left = sqs.queues().len(QUEUE).unwrap();
    assert_eq!(left, settled.returned.len(), "{answer}");
    let owned = |list: &[Received]| ids(list).into_iter().map(str::to_owned).collect();
    (
        owned(&settled.deleted),
        owned(&settled.returned),
        settled.refused,
    )
}

#[tokio::test]
async fn only_what_is_reported_stays_in_the_queue() {
    let (deleted, returned, refused) =
        after(r#"{"batchItemFailures":[{"itemIdentifier":"m-2"}]}"#).await;
    assert_eq!(
        (deleted, returned),
        (vec!["m-1".to_owned()], vec!["m-2".to_owned()])
    );
    assert!(refused.is_none());
}

#[tokio::test]
async fn an_answer_without_failures_deletes_the_whole_batch() {
    for answer in [
        "null",
        "{}",
        r#"{"batchItemFailures":[]}"#,
        r#"{"batchItemFailures":null}"#,
    ] {
        let (deleted, returned, _) = after(answer).await;
        assert_eq!((deleted.len(), returned.len()), (2, 0), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_can_not_be_read_or_names_a_stranger_returns_the_whole_batch() {
    for answer in [
        "",
        "no JSON",
        "[]",
        r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
        r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
        r#"{"batchItemFailures":[{"messageId":"m-1"}]}"#,
        r#"{"batchItemFailures":[{"itemIdentifier":"m-3"}]}"#,
    ] {
        let (deleted, returned, refused) = after(answer).await;
        assert_eq!((deleted.len(), returned.len()), (0, 2), "{answer}");
        assert!(refused.is_some(), "{answer}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_after_the_next_delivery_deletes_nothing() {
    let sqs = sqs(&["m-1"]).await;
    let mapping = EventSourceMapping::new(&sqs, QUEUE, 10);
    let now = SystemTime::now();
    let batch = mapping.poll(now).unwrap().unwrap();
    let later = now + Duration::from_secs(60);
    assert!(mapping.poll(later).unwrap().is_some());
    let settled = mapping.settle(batch, b"null", later).unwrap();
    assert_eq!(ids(&settled.not_deleted), ["m-1"]);
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 1);
}

#[tokio::test]
async fn the_event_shows_what_the_queue_knows_of_a_message() {
    let sqs = sqs(&[]).await;
    let attributes = json!({"tenant": {"DataType": "String", "StringValue": "acme"}});
    let message = NewMessage {
        attributes: attributes.as_object().unwrap().clone(),
        trace_header: Some("Root=1".to_owned()),
        ..NewMessage::new("m-1", "{}").in_group("a", "d-1")
    };
    sqs.queues().send(FIFO, message, SystemTime::now()).unwrap();
    let mapping = EventSourceMapping::new(&sqs, FIFO, 10);
    let batch = mapping.poll(SystemTime::now()).unwrap().unwrap();
    let event: Value = serde_json::from_slice(&batch.event()).unwrap();
    let record = &event["Records"][0];
    assert_eq!(record["messageId"], "m-1");
    assert_eq!(record["body"], "{}");
    assert_eq!(record["receiptHandle"], batch.messages()[0].receipt_handle);
    assert_eq!(record["messageAttributes"]["tenant"]["stringValue"], "acme");
    assert_eq!(
        record["eventSourceARN"],
        "arn:aws:sqs:eu-central-1:123456789012:orders.fifo"
    );
    let attributes = &record["attributes"];
    assert_eq!(attributes["ApproximateReceiveCount"], "1");
    assert_eq!(attributes["MessageGroupId"], "a");
    assert_eq!(attributes["MessageDeduplicationId"], "d-1");
    assert_eq!(attributes["AWSTraceHeader"], "Root=1");
    assert!(attributes["SequenceNumber"].is_string());
}

async fn call(sqs: &LocalSqs, operation: &str, body: &Value) -> (u16, Value) {
    let address = sqs.endpoint()["http://".len()..].parse().unwrap();
    let target = format!(
        "X-Amz-Target: AmazonSQS.{operation}\r\nContent-Type: application/x-amz-json-1.0\r\n"
    );
    let answer = http(address, "POST", "/", &target, &body.to_string()).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

#[tokio::test]
async fn a_function_can_send_to_a_queue() {
    let sqs = sqs(&[]).await;
    let body = json!({
        "QueueUrl": sqs.url(QUEUE),
        "MessageBody": "hello",
        "MessageAttributes": {"sqs-once-reason": {"DataType": "String", "StringValue": "no card"}},
    });
    let (status, answer) = call(&sqs, "SendMessage", &body).await;
    assert_eq!(status, 200);
    assert_eq!(
        answer["MD5OfMessageBody"],
        "5d41402abc4b2a76b9719d911017c592"
    );
    let queues = sqs.queues();
    let sent: Vec<_> = queues.messages(QUEUE).unwrap().collect();
    assert_eq!(sent[0].id, answer["MessageId"].as_str().unwrap());
    assert_eq!(sent[0].body, "hello");
    assert_eq!(
        sent[0].attributes["sqs-once-reason"]["StringValue"],
        "no card"
    );
}

#[tokio::test]
async fn a_function_can_change_when_its_messages_come_back() {
    let sqs = sqs(&["m-1", "m-2"]).await;
    let mapping = EventSourceMapping::new(&sqs, QUEUE, 10);
    let now = SystemTime::now();
    let batch = mapping.poll(now).unwrap().unwrap();
    let handles: Vec<_> = batch
        .messages()
        .iter()
        .map(|one| &one.receipt_handle)
        .collect();
    let entries = json!([
        {"Id": "0", "ReceiptHandle": handles[0], "VisibilityTimeout": 0},
        {"Id": "1", "ReceiptHandle": "garbage", "VisibilityTimeout": 0},
    ]);
    let body = json!({"QueueUrl": sqs.url(QUEUE), "Entries": entries});
    let (status, answer) = call(&sqs, "ChangeMessageVisibilityBatch", &body).await;
    assert_eq!((status, &answer["Successful"][0]["Id"]), (200, &json!("0")));
    assert_eq!(answer["Failed"][0]["Code"], "ReceiptHandleIsInvalid");

    let one =
        json!({"QueueUrl": sqs.url(QUEUE), "ReceiptHandle": handles[1], "VisibilityTimeout": 600});
    assert_eq!(call(&sqs, "ChangeMessageVisibility", &one).await.0, 200);
    let back = mapping
        .poll(now + Duration::from_secs(300))
        .unwrap()
        .unwrap();
    assert_eq!(ids(back.messages()), ["m-1"]);
}

#[tokio::test]
async fn what_can_not_be_done_is_refused_by_its_code() {
    let sqs = sqs(&[]).await;
    let nowhere = json!({"QueueUrl": sqs.url("nowhere"), "MessageBody": "x"});
    for (operation, body, code) in [
        ("SendMessage", &nowhere, "QueueDoesNotExist"),
        ("SendMessage", &json!({}), "MissingParameter"),
        ("CreateQueue", &nowhere, "InvalidAction"),
    ] {
        let (status, answer) = call(&sqs, operation, body).await;
        assert_eq!(status, 400);
        assert_eq!(answer["__type"], format!("com.amazonaws.sqs#{code}"));
    }
}
