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
use serde_json::{Value, json};
use sqs_once_doctor::{Scope, Target};
use sqs_once_local::{Event, Template};

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
    let template = Template::read(template).unwrap();
    let permissions = &template.function(None).unwrap().permissions;
    assert!(permissions.is_complete, "{permissions:?}");
    let (mut granted, mut lambdas) = (Permissions::new(), BTreeSet::new());
    for statement in &permissions.statements {
        assert!(statement.allows, "{statement:?}");
        for action in &statement.actions {
            if LAMBDAS.contains(&action.as_str()) {
                lambdas.insert(action.as_str());
                continue;
            }
            for resource in &statement.resources {
                let Scope::One(Target::Own(id)) = resource else {
                    panic!("{action} is granted on {resource:?}");
                };
                granted.insert((action.clone(), id.clone()));
            }
        }
    }
    for action in &LAMBDAS[..5] {
        assert!(lambdas.contains(action), "{action} is not granted");
    }
    granted
}

/// DynamoDB and SQS, as far as a function sees them: its tables are in an embedded DynamoDB, its queues do as they are
/// asked, and every request is noted by what it needs.
pub(crate) struct Aws {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    dynamodb: Upstream,
    needed: Mutex<Permissions>,
}

/// A client of the server at one endpoint.
pub(crate) struct Upstream {
    endpoint: String,
    client: Client<HttpConnector, Body>,
}

impl Upstream {
    pub(crate) fn new(endpoint: String) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { endpoint, client }
    }

    /// Passes a request on and returns the answer.
    pub(crate) async fn ask(&self, mut request: Request) -> Response {
        let path = request.uri().path_and_query().unwrap();
        *request.uri_mut() = format!("{}{path}", self.endpoint).parse().unwrap();
        self.client.request(request).await.unwrap().map(Body::new)
    }
}

/// Serves on a free loopback port and returns the base URL.
pub(crate) async fn serve(service: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    url
}

impl Aws {
    /// In front of the DynamoDB at an endpoint.
    pub(crate) async fn start(dynamodb: String) -> Self {
        let shared = Arc::new(Shared {
            dynamodb: Upstream::new(dynamodb),
            needed: Mutex::default(),
        });
        let service = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        let url = serve(service).await;
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
    let request = Request::from_parts(parts, Body::from(body));
    shared.dynamodb.ask(request).await
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
    let lines: Vec<_> = bodies.iter().map(Value::to_string).collect();
    Event::parse(&lines.join("\n"), queue).unwrap()
}
