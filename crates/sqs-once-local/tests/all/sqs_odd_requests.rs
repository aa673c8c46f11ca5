//! Tests requests that no SDK sends: SQS refuses them without a panic and without an effect.

use crate::support::{HttpResponse, http};
use serde_json::{Value, json};
use sqs_once_local::{LocalSqs, NewMessage, QueueSettings, Queues, Redrive};
use std::net::SocketAddr;
use std::time::SystemTime;

const QUEUE: &str = "orders";
const DEAD: &str = "orders-dead";
const CONTENT_TYPE: &str = "Content-Type: application/x-amz-json-1.0\r\n";

/// Every operation and its parameters.
const OPERATIONS: [(&str, &[&str]); 15] = [
    ("PurgeQueue", &["QueueUrl"]),
    ("SendMessage", SEND),
    ("SendMessageBatch", SEND),
    (
        "ReceiveMessage",
        &[
            "QueueUrl",
            "MaxNumberOfMessages",
            "VisibilityTimeout",
            "WaitTimeSeconds",
            "AttributeNames",
            "MessageSystemAttributeNames",
            "MessageAttributeNames",
            "ReceiveRequestAttemptId",
        ],
    ),
    ("DeleteMessage", RECEIPT),
    ("DeleteMessageBatch", RECEIPT),
    ("ChangeMessageVisibility", RECEIPT),
    ("ChangeMessageVisibilityBatch", RECEIPT),
    ("GetQueueAttributes", &["QueueUrl", "AttributeNames"]),
    ("GetQueueUrl", &["QueueName", "QueueOwnerAWSAccountId"]),
    (
        "ListQueues",
        &["QueueNamePrefix", "MaxResults", "NextToken"],
    ),
    (
        "ListDeadLetterSourceQueues",
        &["QueueUrl", "MaxResults", "NextToken"],
    ),
    (
        "StartMessageMoveTask",
        &[
            "SourceArn",
            "DestinationArn",
            "MaxNumberOfMessagesPerSecond",
        ],
    ),
    ("ListMessageMoveTasks", &["SourceArn", "MaxResults"]),
    ("CancelMessageMoveTask", &["TaskHandle"]),
];

const SEND: &[&str] = &[
    "QueueUrl",
    "MessageBody",
    "DelaySeconds",
    "MessageAttributes",
    "MessageSystemAttributes",
    "MessageGroupId",
    "MessageDeduplicationId",
    "Entries",
    "Id",
];

const RECEIPT: &[&str] = &[
    "QueueUrl",
    "ReceiptHandle",
    "VisibilityTimeout",
    "Entries",
    "Id",
];

async fn start() -> (LocalSqs, SocketAddr) {
    let mut queues = Queues::default();
    queues.create(DEAD, QueueSettings::default()).unwrap();
    let settings = QueueSettings {
        redrive: Some(Redrive {
            to: DEAD.to_owned(),
            max_receive_count: 2,
        }),
        ..QueueSettings::default()
    };
    queues.create(QUEUE, settings).unwrap();
    let sqs = LocalSqs::start(queues).await.unwrap();
    let address = sqs.endpoint()["http://".len()..].parse().unwrap();
    (sqs, address)
}

async fn call(address: SocketAddr, operation: &str, body: &str) -> HttpResponse {
    let headers = format!("X-Amz-Target: AmazonSQS.{operation}\r\n{CONTENT_TYPE}");
    http(address, "POST", "/", &headers, body).await
}

/// Values of a wrong type, size or format.
fn odd_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("\u{0}"),
        json!("/"),
        json!("https://sqs.eu-central-1.amazonaws.com/1/orders"),
        json!("arn:aws:sqs"),
        json!("orders/99999999999999999999/1"),
        json!("orders/0/4294967296"),
        json!([]),
        json!([null]),
        json!([[]]),
        json!([{}]),
        json!([{"Id": "a"}, {"Id": 1}]),
        json!({}),
        json!({"": {}}),
        json!({"a": null}),
        json!({"a": {"DataType": "Binary", "BinaryValue": "%"}}),
        json!({"AWSTraceHeader": {"DataType": 1}}),
    ]
}

#[tokio::test]
async fn odd_json_is_answered_by_every_operation() {
    let (sqs, address) = start().await;
    for (operation, parameters) in OPERATIONS {
        for parameter in parameters {
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
                request[*parameter] = value.clone();
                if let Some(Value::Object(entry)) = request.pointer_mut("/Entries/0") {
                    entry.insert((*parameter).to_owned(), value);
                }
                assert_answered(address, operation, &request).await;
            }
        }
    }
    assert!(sqs.queues().len(QUEUE).unwrap() > 0);
}

async fn assert_answered(address: SocketAddr, operation: &str, request: &Value) {
    let answer = call(address, operation, &request.to_string()).await;
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
    let (sqs, address) = start().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let large = json!({"QueueUrl": QUEUE, "MessageBody": "x".repeat(9 * 1024 * 1024)});
    for (operation, _) in OPERATIONS {
        for body in ["", "null", "[]", "{", "{\"QueueUrl\": \"\u{fffd}", &deep] {
            let answer = call(address, operation, body).await;
            assert_eq!(answer.status, 400, "{operation}");
            assert!(answer.body.contains("#SerializationException"));
        }
    }
    let answer = call(address, "SendMessage", &large.to_string()).await;
    assert_eq!(answer.status, 400);
    let body = json!({"QueueUrl": QUEUE, "MessageBody": "x"}).to_string();
    for operation in ["", "CreateQueue", "sendmessage"] {
        let answer = call(address, operation, &body).await;
        assert!(answer.body.contains("#InvalidAction"), "{}", answer.body);
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 0);
}

#[tokio::test]
async fn no_web_page_can_send_to_a_queue() {
    let (sqs, address) = start().await;
    let body = json!({"QueueUrl": QUEUE, "MessageBody": "x"}).to_string();
    let target = "X-Amz-Target: AmazonSQS.SendMessage\r\n";
    for (headers, status) in [
        (
            format!("{CONTENT_TYPE}Origin: https://example.com\r\n"),
            403,
        ),
        (format!("{CONTENT_TYPE}Origin: null\r\n"), 403),
        ("Content-Type: text/plain\r\n".to_owned(), 415),
        (String::new(), 415),
    ] {
        let answer = http(address, "POST", "/", &format!("{target}{headers}"), &body).await;
        assert_eq!(answer.status, status, "{headers}");
    }
    for method in ["GET", "OPTIONS", "PUT"] {
        let headers = format!("{target}{CONTENT_TYPE}");
        let answer = http(address, method, "/", &headers, &body).await;
        assert_eq!(answer.status, 405, "{method}");
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 0);
}

#[tokio::test]
async fn only_names_of_this_machine_lead_here() {
    let (sqs, address) = start().await;
    let body = json!({"QueueUrl": QUEUE, "MessageBody": "x"}).to_string();
    let headers = format!("X-Amz-Target: AmazonSQS.SendMessage\r\n{CONTENT_TYPE}");
    let port = address.port();
    for (host, status) in [
        ("example.com".to_owned(), 403),
        (format!("example.com:{port}"), 403),
        (format!("localhost.example.com:{port}"), 403),
        (format!("127.0.0.1.example.com:{port}"), 403),
        ("10.0.0.1".to_owned(), 403),
        (String::new(), 403),
        (format!("localhost:{port}"), 200),
        ("LOCALHOST".to_owned(), 200),
        ("127.0.0.1".to_owned(), 200),
        (format!("127.1.2.3:{port}"), 200),
        ("[::1]".to_owned(), 200),
        (format!("[::1]:{port}"), 200),
    ] {
        let answer = crate::support::http_as(&host, address, "POST", "/", &headers, &body).await;
        assert_eq!(answer.status, status, "{host}");
    }
    assert_eq!(sqs.queues().len(QUEUE).unwrap(), 6);
}

#[tokio::test]
async fn what_a_test_puts_into_a_queue_can_be_received_whatever_it_is() {
    let (sqs, address) = start().await;
    let odd =
        json!({"a": 1, "b": {"DataType": "Binary", "BinaryValue": "%"}, "c": {"StringValue": []}});
    let message = NewMessage {
        attributes: odd.as_object().unwrap().clone(),
        ..NewMessage::new("", "")
    };
    sqs.queues()
        .send(QUEUE, message, SystemTime::now())
        .unwrap();
    let request = json!({"QueueUrl": QUEUE, "MessageAttributeNames": ["All"]});
    let answer = call(address, "ReceiveMessage", &request.to_string()).await;
    let json: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(json["Messages"][0]["MessageAttributes"], odd);
}
