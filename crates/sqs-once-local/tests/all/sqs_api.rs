//! Tests the SQS API with requests in JSON. `.ci/sqs.py` tests every operation through boto3.

use crate::support::{DEAD, QUEUE, call, queues as with_redrive};
use serde_json::{Value, json};
use sqs_once_local::{LocalSqs, NewMessage, QueueSettings};
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

const FIFO: &str = "orders.fifo";
const BY_CONTENT: &str = "by-content.fifo";
const MIB: usize = 1024 * 1024;
/// Shorter than the 20 s that a receive request waits.
const BEFORE_IT_GIVES_UP: Duration = Duration::from_secs(15);

async fn start() -> LocalSqs {
    let mut queues = with_redrive(1);
    queues.create(FIFO, QueueSettings::default()).unwrap();
    let by_content = QueueSettings {
        content_based_deduplication: true,
        ..QueueSettings::default()
    };
    queues.create(BY_CONTENT, by_content).unwrap();
    LocalSqs::start(queues).await.unwrap()
}

/// The answer to a request, which must succeed.
async fn answer(sqs: &LocalSqs, operation: &str, request: &Value) -> Value {
    let answer = call(sqs, operation, &request.to_string()).await;
    assert_eq!(answer.status, 200, "{operation}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// Asserts that a request is refused with this error code, which is what SDKs show.
async fn assert_refused(sqs: &LocalSqs, operation: &str, request: &Value, code: &str) {
    let answer = call(sqs, operation, &request.to_string()).await;
    let refused = answer.header("x-amzn-query-error");
    let expected = format!("{code};Sender");
    assert_eq!(refused, Some(&*expected), "{operation}: {}", answer.body);
}

async fn send(sqs: &LocalSqs, queue: &str, body: &str) {
    let request = json!({"QueueUrl": queue, "MessageBody": body});
    answer(sqs, "SendMessage", &request).await;
}

/// Receives up to ten messages, with the other parameters in `options`.
async fn receive(sqs: &LocalSqs, queue: &str, mut options: Value) -> Vec<Value> {
    options["QueueUrl"] = queue.into();
    options["MaxNumberOfMessages"] = 10.into();
    let answer = answer(sqs, "ReceiveMessage", &options).await;
    answer["Messages"].as_array().cloned().unwrap_or_default()
}

fn bodies(messages: &[Value]) -> Vec<&str> {
    let bodies = messages.iter().map(|one| one["Body"].as_str().unwrap());
    bodies.collect()
}

fn text(value: &str) -> Value {
    json!({"DataType": "String", "StringValue": value})
}

/// An object with one field.
fn only(name: &str, value: impl Into<Value>) -> Value {
    Value::Object([(name.to_owned(), value.into())].into_iter().collect())
}

#[tokio::test]
async fn only_the_attributes_that_are_asked_for_come_with_a_message() {
    let sqs = start().await;
    let attributes = json!({
        "tenant": text("acme"), "order.id": text("o-1"), "order.day": text("monday"),
    });
    let header = only("AWSTraceHeader", text("Root=1"));
    let message = json!({
        "QueueUrl": DEAD, "MessageBody": "x", "MessageAttributes": attributes, "MessageSystemAttributes": header,
    });
    let sent = answer(&sqs, "SendMessage", &message).await;
    assert_eq!(sent.get("SequenceNumber"), None);
    for (wanted, expected) in [
        (&[][..], &[][..]),
        (&["tenant"], &["tenant"]),
        (&["order.*"], &["order.day", "order.id"]),
        (&[".*"], &["order.day", "order.id", "tenant"]),
        (&["order.id", "no"], &["order.id"]),
    ] {
        let names = json!({"MessageAttributeNames": wanted, "VisibilityTimeout": 0});
        let message = receive(&sqs, DEAD, names).await.remove(0);
        assert_eq!(message.get("Attributes"), None);
        let attributes = message["MessageAttributes"].as_object();
        let names = attributes.into_iter().flatten().map(|(name, _)| name);
        assert!(names.eq(expected), "{wanted:?}: {attributes:?}");
    }
    let all = json!({"MessageSystemAttributeNames": ["All"]});
    let system = receive(&sqs, DEAD, all).await.remove(0)["Attributes"].take();
    assert_eq!(system["AWSTraceHeader"], "Root=1");
    assert!(system["SenderId"].is_string());
    assert_eq!(system.get("SequenceNumber"), None);
}

#[tokio::test]
async fn a_message_is_a_mebibyte_at_most_and_its_attributes_count() {
    let sqs = start().await;
    let largest = "x".repeat(MIB);
    send(&sqs, QUEUE, &largest).await;
    let larger = json!({
        "QueueUrl": QUEUE, "MessageBody": largest, "MessageAttributes": {"a": text("b")},
    });
    assert_refused(&sqs, "SendMessage", &larger, "InvalidParameterValue").await;
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let sqs = start().await;
    let with = |attributes: Value| only("MessageAttributes", attributes);
    let eleven = (0..11).map(|n| (format!("a{n}"), text("x"))).collect();
    let (odd, invalid) = ("InvalidMessageContents", "InvalidParameterValue");
    let no_number = json!({"a": {"DataType": "Number", "StringValue": "many"}});
    let late = json!({"MessageGroupId": "g", "DelaySeconds": 1});
    for (queue, code, change) in [
        (QUEUE, odd, json!({"MessageBody": "\u{fffe}"})),
        (QUEUE, invalid, json!({"DelaySeconds": -1})),
        (QUEUE, invalid, json!({"MessageDeduplicationId": "d"})),
        (QUEUE, invalid, json!({"MessageGroupId": "a b"})),
        (QUEUE, invalid, with(json!({"a": {"DataType": "Strange"}}))),
        (QUEUE, invalid, with(json!({"a": {"DataType": "String"}}))),
        (QUEUE, invalid, with(no_number)),
        (QUEUE, invalid, with(only("aws.a", text("x")))),
        (QUEUE, invalid, with(only("a..b", text("x")))),
        (QUEUE, invalid, with(Value::Object(eleven))),
        (BY_CONTENT, invalid, late),
    ] {
        let mut request = json!({"QueueUrl": queue, "MessageBody": "x"});
        let fields = request.as_object_mut().unwrap();
        fields.extend(change.as_object().unwrap().clone());
        assert_refused(&sqs, "SendMessage", &request, code).await;
    }
    for queue in [QUEUE, FIFO, BY_CONTENT] {
        assert_eq!(sqs.queues().len(queue), Ok(0));
    }
}

#[tokio::test]
async fn who_waits_for_a_message_is_woken_when_one_becomes_visible() {
    let sqs = start().await;
    let delayed = NewMessage {
        delay: Some(Duration::from_millis(200)),
        ..NewMessage::new("m-1", "later")
    };
    let sent = sqs.queues().send(QUEUE, delayed, SystemTime::now());
    sent.unwrap();
    assert!(receive(&sqs, QUEUE, json!({})).await.is_empty());
    let waiting = receive(&sqs, QUEUE, json!({"WaitTimeSeconds": 20}));
    let received = timeout(BEFORE_IT_GIVES_UP, waiting).await.unwrap();
    assert_eq!(bodies(&received), ["later"]);
}

#[tokio::test]
async fn a_queue_tells_how_it_is_set() {
    let sqs = start().await;
    let get = async |queue: &str, name: &str| {
        let request = json!({"QueueUrl": queue, "AttributeNames": [name]});
        answer(&sqs, "GetQueueAttributes", &request).await["Attributes"].take()
    };
    let to = arn(DEAD);
    let redrive = format!(r#"{{"deadLetterTargetArn":"{to}","maxReceiveCount":1}}"#);
    for (name, value) in [
        ("VisibilityTimeout", "30"),
        ("MessageRetentionPeriod", "345600"),
        ("MaximumMessageSize", "1048576"),
        ("RedrivePolicy", &redrive),
    ] {
        assert_eq!(get(QUEUE, name).await, only(name, value));
    }
    assert_eq!(get(QUEUE, "All").await.get("FifoQueue"), None);
    assert_eq!(get(DEAD, "RedrivePolicy").await, Value::Null);
}

/// Moves messages with these bodies to the dead-letter queue.
async fn with_dead(bodies: &[&str]) -> LocalSqs {
    let sqs = start().await;
    for body in bodies {
        send(&sqs, QUEUE, body).await;
        receive(&sqs, QUEUE, json!({"VisibilityTimeout": 0})).await;
    }
    assert!(receive(&sqs, QUEUE, json!({})).await.is_empty());
    assert_eq!(sqs.queues().len(DEAD), Ok(bodies.len()));
    sqs
}

fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:eu-central-1:123456789012:{queue}")
}

/// The last task that moved dead letters.
async fn last_task(sqs: &LocalSqs) -> Value {
    let request = json!({"SourceArn": arn(DEAD)});
    answer(sqs, "ListMessageMoveTasks", &request).await["Results"][0].take()
}

#[tokio::test]
async fn a_move_task_takes_dead_letters_where_it_is_told_to_and_fails_at_one_of_unknown_origin() {
    let sqs = with_dead(&["1"]).await;
    send(&sqs, DEAD, "sent here").await;
    let to = |queue| json!({"SourceArn": arn(DEAD), "DestinationArn": arn(queue)});
    let start = "StartMessageMoveTask";
    assert_refused(&sqs, start, &to("another"), "ResourceNotFoundException").await;
    assert_refused(&sqs, start, &to(FIFO), "InvalidParameterValue").await;
    answer(&sqs, start, &json!({"SourceArn": arn(DEAD)})).await;
    let task = last_task(&sqs).await;
    assert_eq!(task["Status"], "FAILED");
    assert_eq!(task["ApproximateNumberOfMessagesMoved"], 1);
    answer(&sqs, start, &to(QUEUE)).await;
    let all = json!({"AttributeNames": ["All"]});
    let back = receive(&sqs, QUEUE, all).await;
    assert_eq!(bodies(&back), ["1", "sent here"]);
    for message in back {
        let source = &message["Attributes"]["DeadLetterQueueSourceArn"];
        assert_eq!(source, &Value::Null, "it is a new message");
    }
}

#[tokio::test]
async fn a_slow_move_task_can_be_watched_and_cancelled() {
    let sqs = with_dead(&["1", "2", "3"]).await;
    let (start, cancel) = ("StartMessageMoveTask", "CancelMessageMoveTask");
    let at = |rate| json!({"SourceArn": arn(DEAD), "MaxNumberOfMessagesPerSecond": rate});
    assert_refused(&sqs, start, &at(501), "InvalidParameterValue").await;
    let task = answer(&sqs, start, &at(1)).await;
    answer(&sqs, cancel, &task).await;
    let unsupported = "AWS.SimpleQueueService.UnsupportedOperation";
    assert_refused(&sqs, cancel, &task, unsupported).await;
    assert_eq!(last_task(&sqs).await["Status"], "CANCELLED");
    assert!(sqs.queues().len(DEAD).unwrap() >= 2);

    answer(&sqs, start, &at(500)).await;
    let outer_limit = SystemTime::now() + Duration::from_secs(60);
    while last_task(&sqs).await["Status"] == "RUNNING" {
        assert!(SystemTime::now() < outer_limit, "it never ends");
        tokio::task::yield_now().await;
    }
    assert_eq!(last_task(&sqs).await["Status"], "COMPLETED");
    assert_eq!(receive(&sqs, QUEUE, json!({})).await.len(), 3);
}
