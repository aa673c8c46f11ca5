//! Paths through DynamoDB's answers, which quote the request.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::http::StatusCode;
use serde_json::{Value, json};
use sqs_once::policy::Mode;
use sqs_once::{Consumer, DynamoDbStore, Recorded, Writes, consumer};

use crate::no_secrets::paths_store::update;
use crate::no_secrets::world::{Order, World, id};
use crate::support::SECOND;

/// DynamoDB's errors for a whole request.
pub(crate) const ERRORS: [(u16, &str); 9] = [
    (400, "AccessDeniedException"),
    (400, "ResourceNotFoundException"),
    (400, "ProvisionedThroughputExceededException"),
    (400, "ThrottlingException"),
    (400, "ValidationException"),
    (400, "ItemCollectionSizeLimitExceededException"),
    (400, "TransactionConflictException"),
    (400, "SomethingNewException"),
    (500, "InternalServerError"),
];

/// The answer to an operation's request, with a code.
type Answer = fn(&str, &Value, &str) -> String;

/// A DynamoDB with the same kind of answer to every request.
#[derive(Clone, Debug)]
pub(crate) struct Quoting(u16, Answer, &'static str);

impl Quoting {
    /// Returns an error that quotes each value of the request in its message.
    pub(crate) fn error(status: u16, code: &'static str) -> Self {
        let answer = |_: &str, request: &Value, code: &str| {
            let type_of = format!("com.amazonaws.dynamodb.v20120810#{code}");
            json!({ "__type": type_of, "message": quoting(request) }).to_string()
        };
        Self(status, answer, code)
    }

    pub(crate) fn store(self) -> DynamoDbStore {
        let connector = SharedHttpConnector::new(self);
        let config = crate::support::dynamodb::config("http://127.0.0.1:9")
            .retry_config(RetryConfig::disabled())
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .build();
        DynamoDbStore::new(Client::from_conf(config), "table")
    }
}

impl HttpConnector for Quoting {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let operation = target.rsplit('.').next().unwrap().to_owned();
        let asked: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let Self(status, answer, code) = self;
        let answer = answer(&operation, &asked, code);
        let status = StatusCode::try_from(*status).unwrap();
        HttpConnectorFuture::new(async move { Ok(HttpResponse::new(status, answer.into())) })
    }
}

/// DynamoDB's message about invalid values: `Input collection [a, b] contains duplicates`.
fn quoting(request: &Value) -> String {
    let mut values = Vec::new();
    texts(request, &mut values);
    let values = values.join(", ");
    format!(
        "One or more parameter values were invalid: Input collection [{values}] contains duplicates"
    )
}

/// Collects the string values, including the keys of items.
fn texts(json: &Value, into: &mut Vec<String>) {
    match json {
        Value::Object(fields) => {
            into.extend(fields.get("S").and_then(Value::as_str).map(str::to_owned));
            let set = fields.get("SS").and_then(Value::as_array);
            let set = set.into_iter().flatten().filter_map(Value::as_str);
            into.extend(set.map(str::to_owned));
            fields.values().for_each(|value| texts(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, into)),
        _ => {}
    }
}

/// A consumer for each mode of the store. The table has readable keys.
fn consumers(world: &World, store: &Quoting) -> [Consumer; 4] {
    let keyed = || consumer::<Order>().key(id);
    let recording = || keyed().handler(async |_: Order| Recorded("canary-data"));
    let writing = || {
        keyed().handler(async |_: Order| Writes::new().update(update()).recording(&"canary-data"))
    };
    let ways = [
        recording(),
        recording().mode(Mode::RecordAfter),
        writing(),
        writing().mode(Mode::ClaimFirst),
    ];
    ways.map(|consumer| {
        world
            .consumer(consumer)
            .store(store.clone().store())
            .readable_keys(true)
    })
}

async fn all_ways(store: &Quoting) {
    let mut world = World::new();
    // Enough time for the retries.
    world.timeout = 2 * SECOND;
    for consumer in consumers(&world, store) {
        world.orders(&consumer, ["a"]).await;
        world.orders(&consumer, ["a", "b"]).await;
    }
}

pub(crate) async fn errors() {
    for (status, code) in ERRORS {
        all_ways(&Quoting::error(status, code)).await;
    }
    // Errors for one statement of a batch, and for one write of a transaction.
    for code in [
        "ValidationError",
        "AccessDenied",
        "ProvisionedThroughputExceeded",
        "ThrottlingError",
        "SomethingNew",
    ] {
        all_ways(&Quoting(200, each, code)).await;
    }
}

/// An answer that refuses each part of its request.
fn each(operation: &str, request: &Value, code: &str) -> String {
    match operation {
        "BatchExecuteStatement" => {
            let error = |one: &Value| json!({ "Code": code, "Message": quoting(one) });
            statements(request, error)
        }
        _ => json!({ "__type": code, "message": quoting(request) }).to_string(),
    }
}

/// The answer to a batch whose statements fail with these errors.
fn statements(request: &Value, error: impl Fn(&Value) -> Value) -> String {
    let all = request["Statements"].as_array().unwrap().iter();
    let errors = all.map(|one| json!({ "Error": error(one) }));
    json!({ "Responses": errors.collect::<Vec<_>>() }).to_string()
}

/// An item in the table.
fn item(status: &str) -> Value {
    json!({
        "id": { "S": "test#s:canary-key-a" },
        "status": { "S": status },
        "expiration": { "N": "99999999999" },
        "in_progress_expiration": { "N": "99999999999999" },
        "data": { "S": "\"canary-data\"" },
        "card": { "S": "canary-card" },
    })
}

/// An answer that contains the item that refused.
fn shown(operation: &str, request: &Value, status: &str) -> String {
    let refused = |kind: &str| json!({ "Code": kind, "Message": "The conditional request failed", "Item": item(status) });
    match operation {
        "BatchExecuteStatement" => statements(request, |_| refused("ConditionalCheckFailed")),
        "BatchGetItem" => {
            json!({ "Responses": { "table": [item(status)] }, "UnprocessedKeys": {} }).to_string()
        }
        "TransactWriteItems" => {
            let parts = request["TransactItems"].as_array().unwrap().iter();
            let reasons: Vec<_> = parts.map(|_| refused("ConditionalCheckFailed")).collect();
            let type_of = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
            json!({ "__type": type_of, "message": "Transaction cancelled", "CancellationReasons": reasons }).to_string()
        }
        _ => {
            let type_of = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
            json!({ "__type": type_of, "message": "The conditional request failed", "Item": item(status) }).to_string()
        }
    }
}

pub(crate) async fn conditions() {
    for status in ["COMPLETED", "INPROGRESS", "PAUSED"] {
        // The HTTP status of a refusal depends on the operation, and the SDK depends on the status.
        for http in [200, 400] {
            all_ways(&Quoting(http, shown, status)).await;
        }
    }
}

pub(crate) async fn unreadable_items() {
    let answer = |operation: &str, request: &Value, _: &str| {
        shown(operation, request, "COMPLETED")
            .replace("\"N\":\"99999999999\"", "\"S\":\"canary-expiration\"")
    };
    for status in [200, 400] {
        all_ways(&Quoting(status, answer, "")).await;
    }
}

/// Answers that DynamoDB never sends, and that quote the request.
pub(crate) async fn garbage() {
    for answer in [
        |_: &str, request: &Value, _: &str| request.to_string(),
        |_: &str, request: &Value, _: &str| format!("<html>{request}</html>"),
        |_: &str, request: &Value, _: &str| format!("canary{request}"),
        |_: &str, request: &Value, _: &str| {
            json!({ "Responses": quoting(request), "Attributes": quoting(request) }).to_string()
        },
    ] {
        for status in [200, 403, 503] {
            all_ways(&Quoting(status, answer, "")).await;
        }
    }
}
