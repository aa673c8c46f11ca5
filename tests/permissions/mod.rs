//! What a function's role may do by its template, and what the function asks AWS for: the permissions that its requests
//! need, as AWS documents them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use saphyr::{LoadableYamlNode, Yaml};
use serde_json::{Value, json};
use sqs_once_local::Event;

/// An action, and the logical id of what it is done to.
pub(crate) type Permissions = BTreeSet<(String, String)>;

/// What Lambda itself does by the function's role, and the function never: its poller, its logs, its traces.
const LAMBDAS: [&str; 7] = [
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
];

/// What the template of a function lets it do by itself.
pub(crate) fn granted(template: &Path) -> Permissions {
    let text = std::fs::read_to_string(template).unwrap();
    let documents = Yaml::load_from_str(&text).unwrap();
    let resources = documents[0].as_mapping_get("Resources").unwrap();
    let mut granted = Permissions::new();
    for resource in resources.as_mapping().unwrap().values() {
        if resource.as_mapping_get("Type").unwrap().as_str() != Some("AWS::IAM::Role") {
            continue;
        }
        let properties = resource.as_mapping_get("Properties").unwrap();
        for policy in all(properties.as_mapping_get("Policies").unwrap()) {
            let document = policy.as_mapping_get("PolicyDocument").unwrap();
            for statement in all(document.as_mapping_get("Statement").unwrap()) {
                assert_eq!(
                    statement.as_mapping_get("Effect").unwrap().as_str(),
                    Some("Allow")
                );
                for action in all(statement.as_mapping_get("Action").unwrap()) {
                    for resource in all(statement.as_mapping_get("Resource").unwrap()) {
                        let action = action.as_str().unwrap().to_owned();
                        granted.insert((action, logical_id(resource).to_owned()));
                    }
                }
            }
        }
    }
    for action in &LAMBDAS[..5] {
        assert!(
            granted.iter().any(|(granted, _)| granted == action),
            "{action} is not granted"
        );
    }
    granted.retain(|(action, _)| !LAMBDAS.contains(&action.as_str()));
    granted
}

fn all<'a, 'input>(one_or_many: &'a Yaml<'input>) -> Vec<&'a Yaml<'input>> {
    match one_or_many.as_vec() {
        Some(many) => many.iter().collect(),
        None => vec![one_or_many],
    }
}

/// `!GetAtt OrdersTable.Arn` is of `OrdersTable`.
fn logical_id<'a>(resource: &'a Yaml<'_>) -> &'a str {
    let arn = match resource {
        Yaml::Tagged(tag, node) if tag.suffix == "GetAtt" => node.as_str().unwrap(),
        literal => literal.as_str().unwrap(),
    };
    arn.strip_suffix(".Arn").unwrap_or(arn)
}

/// DynamoDB and SQS, as far as a function sees them: its tables are in an embedded DynamoDB, its queues do as they are
/// asked, and every request is noted by what it needs.
pub(crate) struct Aws {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    dynamodb: String,
    client: Client<HttpConnector, Body>,
    needed: Mutex<Permissions>,
}

impl Aws {
    /// In front of the DynamoDB at an endpoint.
    pub(crate) async fn start(dynamodb: String) -> Self {
        let shared = Arc::new(Shared {
            dynamodb,
            client: Client::builder(TokioExecutor::new()).build_http(),
            needed: Mutex::default(),
        });
        let service = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { url, shared }
    }

    /// The URL of a queue.
    pub(crate) fn queue(&self, name: &str) -> String {
        format!("{}/123456789012/{name}", self.url)
    }

    /// What the requests so far needed.
    pub(crate) fn needed(&self) -> Permissions {
        self.shared.needed.lock().unwrap().clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let target = request.headers()["x-amz-target"]
        .to_str()
        .unwrap()
        .to_owned();
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let (service, operation) = target.split_once('.').unwrap();
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let needed = needed(operation, &asked);
    assert!(!needed.is_empty(), "{asked}");
    shared.needed.lock().unwrap().extend(needed);
    if service == "AmazonSQS" {
        return done(&asked);
    }
    let mut request = Request::from_parts(parts, Body::from(body));
    *request.uri_mut() = shared.dynamodb.parse().unwrap();
    let answer = shared.client.request(request).await.unwrap();
    answer.map(Body::new)
}

/// What SQS says when it has done as it was asked.
fn done(asked: &Value) -> Response {
    let entries = asked["Entries"].as_array().into_iter().flatten();
    let done: Vec<_> = entries.map(|entry| json!({ "Id": entry["Id"] })).collect();
    let answer = json!({ "MessageId": "copy", "Successful": done, "Failed": [] });
    Bytes::from(answer.to_string()).into_response()
}

/// The permissions that a request needs. One that is not here fails the test.
fn needed(operation: &str, asked: &Value) -> Permissions {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let dynamodb = |action: &str, table: &Value| (format!("dynamodb:{action}"), text(table));
    // The batch versions of both are granted with them.
    let sqs = |action: &str| {
        let url = text(&asked["QueueUrl"]);
        (
            format!("sqs:{action}"),
            url.rsplit('/').next().unwrap().to_owned(),
        )
    };
    match operation {
        "UpdateItem" => [dynamodb("UpdateItem", &asked["TableName"])].into(),
        "BatchGetItem" => {
            let tables = asked["RequestItems"].as_object().unwrap().keys();
            tables
                .map(|table| dynamodb("BatchGetItem", &json!(table)))
                .collect()
        }
        // No permission of its own, but those of its statements.
        "BatchExecuteStatement" => {
            let statements = list(&asked["Statements"]);
            statements
                .iter()
                .map(|one| partiql(one["Statement"].as_str().unwrap()))
                .collect()
        }
        // No permission of its own, but those of its writes.
        "TransactWriteItems" => {
            let writes = list(&asked["TransactItems"]);
            let needed = writes.iter().map(|write| {
                let (kind, write) = write.as_object().unwrap().iter().next().unwrap();
                let action = match kind.as_str() {
                    "ConditionCheck" => "ConditionCheckItem".to_owned(),
                    kind => format!("{kind}Item"),
                };
                dynamodb(&action, &write["TableName"])
            });
            needed.collect()
        }
        "SendMessage" | "SendMessageBatch" => [sqs("SendMessage")].into(),
        "ChangeMessageVisibility" | "ChangeMessageVisibilityBatch" => {
            [sqs("ChangeMessageVisibility")].into()
        }
        other => panic!("{other} is a new request: say what it needs"),
    }
}

/// `UPDATE "table" SET …` needs `dynamodb:PartiQLUpdate` on the table.
fn partiql(statement: &str) -> (String, String) {
    let action = match statement.split_whitespace().next().unwrap() {
        "INSERT" => "PartiQLInsert",
        "UPDATE" => "PartiQLUpdate",
        "DELETE" => "PartiQLDelete",
        "SELECT" => "PartiQLSelect",
        other => panic!("{other} is no statement that a role can be granted"),
    };
    let table = statement.split('"').nth(1).unwrap();
    (format!("dynamodb:{action}"), table.to_owned())
}

/// An event of these bodies, from a queue.
pub(crate) fn event(queue: &str, bodies: &[Value]) -> Event {
    let records = bodies.iter().enumerate().map(|(at, body)| {
        json!({
            "messageId": format!("m-{at}"),
            "receiptHandle": format!("handle-{at}"),
            "body": body.to_string(),
            "attributes": { "ApproximateReceiveCount": "1" },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": format!("arn:aws:sqs:eu-central-1:123456789012:{queue}"),
        })
    });
    let event = json!({ "Records": records.collect::<Vec<_>>() });
    Event::parse(&event.to_string(), queue).unwrap()
}
