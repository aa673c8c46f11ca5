//! Tests requests that no SDK sends: SQS refuses them without a panic and without an effect.

use crate::support::{QUEUE, SQS_JSON, address, call, http, queues};
use serde_json::{Value, json};
use sqs_once_local::{LocalSqs, NewMessage};
use std::time::SystemTime;

/// Every operation and its parameters.
const OPERATIONS: [(&str, &str); 15] = [
    ("PurgeQueue", "QueueUrl"),
    ("SendMessage", SEND),
    ("SendMessageBatch", SEND),
    ("ReceiveMessage", RECEIVE),
    ("DeleteMessage", RECEIPT),
    ("DeleteMessageBatch", RECEIPT),
    ("ChangeMessageVisibility", RECEIPT),
    ("ChangeMessageVisibilityBatch", RECEIPT),
    ("GetQueueAttributes", "QueueUrl AttributeNames"),
    ("GetQueueUrl", "QueueName QueueOwnerAWSAccountId"),
    ("ListQueues", "QueueNamePrefix MaxResults NextToken"),
    (
        "ListDeadLetterSourceQueues",
        "QueueUrl MaxResults NextToken",
    ),
    ("StartMessageMoveTask", MOVE),
    ("ListMessageMoveTasks", "SourceArn MaxResults"),
    ("CancelMessageMoveTask", "TaskHandle"),
];

const SEND: &str = "QueueUrl MessageBody DelaySeconds MessageAttributes MessageSystemAttributes \
                    MessageGroupId MessageDeduplicationId Entries Id";
const RECEIVE: &str = "QueueUrl MaxNumberOfMessages VisibilityTimeout WaitTimeSeconds AttributeNames \
                       MessageSystemAttributeNames MessageAttributeNames ReceiveRequestAttemptId";
const RECEIPT: &str = "QueueUrl ReceiptHandle VisibilityTimeout Entries Id";
const MOVE: &str = "SourceArn DestinationArn MaxNumberOfMessagesPerSecond";

async fn start() -> LocalSqs {
    LocalSqs::start(queues(2)).await.unwrap()
}

/// Values of a wrong type, size or format.
fn odd_values() -> Vec<Value> {
    let values = json!([
        null, true, -1, 1.5, 1e300, u64::MAX, i64::MIN, "", "\u{0}", "/",
        "https://sqs.eu-central-1.amazonaws.com/1/orders", "arn:aws:sqs",
        "orders/99999999999999999999/1", "orders/0/4294967296",
        [], [null], [[]], [{}], [{"Id": "a"}, {"Id": 1}], {}, {"": {}}, {"a": null},
        {"a": {"DataType": "Binary", "BinaryValue": "%"}}, {"AWSTraceHeader": {"DataType": 1}},
    ]);
    values.as_array().unwrap().clone()
}

#[tokio::test]
async fn odd_json_is_answered_by_every_operation() {
    let sqs = start().await;
    for (operation, parameters) in OPERATIONS {
        for parameter in parameters.split(' ') {
            for value in odd_values() {
                let mut request = json!({
                    "QueueUrl": QUEUE,
                    "QueueName": QUEUE,
                    "MessageBody": "x",
                    "ReceiptHandle": "orders/0/1",
                    "VisibilityTimeout": 1,
                    "SourceArn": "arn:aws:sqs:eu-central-1:123456789012:orders-dead",
                    "Entries": [{
                        "Id": "a", "MessageBody": "x", "ReceiptHandle": "orders/0/1", "VisibilityTimeout": 1,
                    }],
                });
                request[parameter] = value.clone();
                if let Some(Value::Object(entry)) = request.pointer_mut("/Entries/0") {
                    entry.insert(parameter.to_owned(), value);
                }
                assert_answered(&sqs, operation, &request).await;
            }
        }
    }
    assert!(sqs.queues().len(QUEUE).unwrap() > 0);
}

async fn assert_answered(sqs: &LocalSqs, operation: &str, request: &Value) {
    let answer = call(sqs, operation, &request.to_string()).await;
    let json: Value = serde_json::from_str(&answer.body).unwrap();
    match answer.status {
        200 => assert!(json.is_object(), "{operation} {request}"),
        400 => {
            let kind = json["__type"].as_str().unwrap();
            assert!(kind.starts_with("com.amazonaws.sqs#"), "{kind}");
            let header = answer.header("x-amzn-query-error").unwrap();
            assert!(header.ends_with(";Sender"), "{header}");
        }
        other => panic!("{other} for {operation} {request}"),
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let sqs = start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let large = json!({"QueueUrl": QUEUE, "MessageBody": "x".repeat(9 * 1024 * 1024)});
    for (operation, _) in OPERATIONS {
        for body in ["", "null", "[]", "{", "{\"QueueUrl\": \"\u{fffd}", &deep] {
            let answer = call(&sqs, operation, body).await;
            assert_eq!(answer.status, 400, "{operation}");
            assert!(answer.body.contains("#SerializationException"));
        }
    }
    let answer = call(&sqs, "SendMessage", &large.to_string()).await;
    assert_eq!(answer.status, 400);
    let nowhere = r#"{"QueueUrl": "nowhere", "MessageBody": "x"}"#;
    for (body, code) in [("{}", "MissingParameter"), (nowhere, "QueueDoesNotExist")] {
        let answer = call(&sqs, "SendMessage", body).await;
        let kind = format!(r#""com.amazonaws.sqs#{code}""#);
        assert!(answer.body.contains(&kind), "{}", answer.body);
    }
    let body = json!({"QueueUrl": QUEUE, "MessageBody": "x"}).to_string();
    for operation in ["", "CreateQueue", "sendmessage"] {
        let answer = call(&sqs, operation, &body).await;
        assert!(answer.body.contains("#InvalidAction"), "{}", answer.body);
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 0);
}

#[tokio::test]
async fn only_a_post_in_the_json_protocol_is_answered() {
    let sqs = start().await;
    let body = json!({"QueueUrl": QUEUE, "MessageBody": "x"}).to_string();
    let target = "X-Amz-Target: AmazonSQS.SendMessage\r\n";
    for (method, content_type, status) in [
        ("POST", "Content-Type: text/plain\r\n", 415),
        ("POST", "", 415),
        ("GET", SQS_JSON, 405),
        ("OPTIONS", SQS_JSON, 405),
        ("PUT", SQS_JSON, 405),
    ] {
        let headers = format!("{target}{content_type}");
        let answer = http(address(&sqs.endpoint()), method, "/", &headers, &body).await;
        assert_eq!(answer.status, status, "{method} {headers}");
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 0);
}

#[tokio::test]
async fn what_a_test_puts_into_a_queue_can_be_received_whatever_it_is() {
    let sqs = start().await;
    let odd =
        json!({"a": 1, "b": {"DataType": "Binary", "BinaryValue": "%"}, "c": {"StringValue": []}});
    let message = NewMessage {
        attributes: odd.as_object().unwrap().clone(),
        ..NewMessage::new("", "")
    };
    let sent = sqs.queues().send(QUEUE, message, SystemTime::now());
    sent.unwrap();
    let request = json!({"QueueUrl": QUEUE, "MessageAttributeNames": ["All"]});
    let answer = call(&sqs, "ReceiveMessage", &request.to_string()).await;
    let json: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(json["Messages"][0]["MessageAttributes"], odd);
}
