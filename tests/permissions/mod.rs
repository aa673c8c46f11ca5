//! What a function's role may do by its template, and what the function asks AWS for: the permissions that its requests
//! need, as AWS documents them.

use std::collections::BTreeSet;
use std::path::Path;

use network_for_tests::{Turn, Wire};
use serde_json::{Value, json};
use sqs_once_doctor::{Scope, Target};
use sqs_once_local::{Event, Launch, Template};

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
/// asked.
pub(crate) struct Aws {
    dynamodb: Wire,
    sqs: Wire,
}

impl Aws {
    /// In front of the DynamoDB at an endpoint.
    pub(crate) async fn start(dynamodb: &str) -> Self {
        Self {
            dynamodb: Wire::to(dynamodb).await,
            sqs: Wire::always(Turn::By(done)).await,
        }
    }

    /// Lets a function send its requests here, and has a dead-letter queue with this name.
    pub(crate) fn serves(&self, launch: Launch, dead_letters: &str) -> Launch {
        let sqs = self.sqs.endpoint();
        launch
            .env("AWS_ENDPOINT_URL_DYNAMODB", self.dynamodb.endpoint())
            .env(
                "SQS_ONCE_DLQ_URL",
                format!("{sqs}/123456789012/{dead_letters}"),
            )
            .env("AWS_ENDPOINT_URL_SQS", sqs)
    }

    /// What the requests so far needed.
    pub(crate) fn needed(&self) -> Permissions {
        let requests = [&self.dynamodb, &self.sqs].into_iter();
        let requests = requests.flat_map(|wire| wire.seen().into_iter().zip(wire.bodies()));
        requests
            .flat_map(|(operation, asked)| needed(&operation, &asked))
            .collect()
    }
}

/// What SQS says when it has done as it was asked.
fn done(asked: &Value) -> (u16, Value) {
    let entries = asked["Entries"].as_array().into_iter().flatten();
    let done: Vec<_> = entries.map(|entry| json!({ "Id": entry["Id"] })).collect();
    let answer = json!({ "MessageId": "copy", "Successful": done, "Failed": [] });
    (200, answer)
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
