//! Tests the event source mapping.

use crate::support::{QUEUE, ids};
use serde_json::{Value, json};
use sqs_once_local::{EventSourceMapping, LocalSqs, NewMessage, QueueSettings, Queues};
use std::time::{Duration, SystemTime};

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

/// `an_answer_that_lambda_treats_as_a_failed_batch_is_an_error` and its neighbours in `report` list all answers.
#[tokio::test]
async fn an_answer_deletes_what_it_does_not_report_and_nothing_if_it_can_not_be_read() {
    let one = r#"{"batchItemFailures":[{"itemIdentifier":"m-2"}]}"#;
    let unknown = r#"{"batchItemFailures":[{"itemIdentifier":"m-3"}]}"#;
    for (answer, deleted, returned) in [
        ("null", &["m-1", "m-2"][..], &[][..]),
        (one, &["m-1"], &["m-2"]),
        ("no JSON", &[], &["m-1", "m-2"]),
        (unknown, &[], &["m-1", "m-2"]),
    ] {
        let sqs = sqs(&["m-1", "m-2"]).await;
        let mapping = EventSourceMapping::new(&sqs, QUEUE, 10);
        let now = SystemTime::now();
        let batch = mapping.poll(now).unwrap().unwrap();
        let settled = mapping.settle(batch, answer.as_bytes(), now).unwrap();
        assert_eq!(ids(&settled.deleted), deleted, "{answer}");
        assert_eq!(ids(&settled.returned), returned, "{answer}");
        assert_eq!(settled.refused.is_some(), deleted.is_empty(), "{answer}");
        assert_eq!(sqs.queues().len(QUEUE).unwrap(), returned.len(), "{answer}");
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
    let arn = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";
    for (field, value) in [
        ("/messageId", "m-1"),
        ("/body", "{}"),
        ("/receiptHandle", &batch.messages()[0].receipt_handle),
        ("/messageAttributes/tenant/stringValue", "acme"),
        ("/eventSourceARN", arn),
        ("/attributes/ApproximateReceiveCount", "1"),
        ("/attributes/MessageGroupId", "a"),
        ("/attributes/MessageDeduplicationId", "d-1"),
        ("/attributes/AWSTraceHeader", "Root=1"),
    ] {
        assert_eq!(record.pointer(field).unwrap(), value, "{field}");
    }
    assert!(record["attributes"]["SequenceNumber"].is_string());
}
