//! Answers of DynamoDB that quote the request, which contains keys, values of completions and the values of writes.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::http::StatusCode;
use serde_json::{Value, json};
use sqs_once::handler::{ClaimFirst, RecordAfter};
use sqs_once::key::Ids;
use sqs_once::policy::Disposition;
use sqs_once::{Completion, DynamoDbStore, Handler, HandlerError, Idempotency, Writes};

use super::{assert_error_hidden, assert_hidden};
use crate::support::{Bench, Order, SECOND, ends, orders};

/// The answer to an operation's request, with a code.
type Answer = fn(&str, &Value, &str) -> Value;

/// A DynamoDB with the same kind of answer to every request.
#[derive(Clone, Debug)]
struct Quoting(u16, Answer, &'static str);

impl Quoting {
    fn store(&self) -> DynamoDbStore {
        let connector = SharedHttpConnector::new(self.clone());
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
        let operation = target.rsplit('.').next().unwrap();
        let asked: Value = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let Self(status, answer, code) = self;
        let answer = match answer(operation, &asked, code) {
            Value::String(text) => text,
            json => json.to_string(),
        };
        let status = StatusCode::try_from(*status).unwrap();
        HttpConnectorFuture::new(async move { Ok(HttpResponse::new(status, answer.into())) })
    }
}

/// DynamoDB's message about invalid values: `Input collection [a, b] contains duplicates`.
fn quoting(request: &Value) -> String {
    let mut values = Vec::new();
    texts(request, &mut values);
    let values = values.join(", ");
    let why = "One or more parameter values were invalid";
    format!("{why}: Input collection [{values}] contains duplicates")
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

fn whole(_: &str, request: &Value, code: &str) -> Value {
    let kind = format!("com.amazonaws.dynamodb.v20120810#{code}");
    json!({ "__type": kind, "message": quoting(request) })
}

fn each(operation: &str, request: &Value, code: &str) -> Value {
    match operation {
        "BatchExecuteStatement" => statements(
            request,
            |one| json!({ "Code": code, "Message": quoting(one) }),
        ),
        _ => whole(operation, request, code),
    }
}

/// The answer to a batch whose statements fail with these errors.
fn statements(request: &Value, error: impl Fn(&Value) -> Value) -> Value {
    let all = request["Statements"].as_array().unwrap().iter();
    let errors = all.map(|one| json!({ "Error": error(one) }));
    json!({ "Responses": errors.collect::<Vec<_>>() })
}

/// A refusal with the item that is there, in this status.
fn refused(operation: &str, request: &Value, status: &str) -> Value {
    let item = json!({
        "id": { "S": "test#s:canary-key-a" },
        "status": { "S": status },
        "expiration": { "N": "99999999999" },
        "in_progress_expiration": { "N": "99999999999999" },
        "data": { "S": "\"canary-data\"" },
        "card": { "S": "canary-card" },
    });
    let message = "The conditional request failed";
    let failed = || json!({ "Code": "ConditionalCheckFailed", "Message": message, "Item": item });
    let kind = |name| format!("com.amazonaws.dynamodb.v20120810#{name}");
    match operation {
        "BatchExecuteStatement" => statements(request, |_| failed()),
        "BatchGetItem" => json!({ "Responses": { "table": [item] }, "UnprocessedKeys": {} }),
        "TransactWriteItems" => {
            let parts = request["TransactItems"].as_array().unwrap().iter();
            let reasons: Vec<_> = parts.map(|_| failed()).collect();
            let kind = kind("TransactionCanceledException");
            json!({ "__type": kind, "message": "Transaction cancelled", "CancellationReasons": reasons })
        }
        _ => {
            let kind = kind("ConditionalCheckFailedException");
            json!({ "__type": kind, "message": message, "Item": item })
        }
    }
}

/// A refusal with an item that is not readable.
fn unreadable(operation: &str, request: &Value, _: &str) -> Value {
    let item = refused(operation, request, "COMPLETED").to_string();
    let readable = "\"expiration\":{\"N\":\"99999999999\"}";
    Value::String(item.replace(readable, "\"expiration\":{\"S\":\"canary-expiration\"}"))
}

fn update() -> Update {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let by = AttributeValue::L(vec![text("canary-in-list")]);
    let with = AttributeValue::Ss(vec!["canary-in-set".to_owned()]);
    let nested = HashMap::from([("by".to_owned(), by), ("with".to_owned(), with)]);
    let update = Update::builder()
        .table_name("stock")
        .key("article", text("canary-article"))
        .update_expression("SET card = :card, paid = :paid")
        .expression_attribute_values(":card", text("canary-card"))
        .expression_attribute_values(":paid", AttributeValue::M(nested));
    update.build().unwrap()
}

fn writes() -> Writes {
    let writes = Writes::new().update(update()).completion(&"canary-data");
    writes.on_conflict(|conflict| {
        assert_hidden(&format!("{conflict:?}"));
        Disposition::Terminal
    })
}

/// Every use of the store, with readable keys. Returns the reasons.
async fn all_uses(quoting: &Quoting) -> String {
    let record = async |_: Order| Completion("canary-data");
    let write = async |_: Order| writes();
    let mut reasons = String::new();
    for handler in [
        orders().call(record),
        orders().call(RecordAfter(record)),
        orders().call(write),
        orders().call(ClaimFirst(write)),
    ] {
        // Enough time for the retries.
        let bench = Bench::with_timeout(2 * SECOND);
        let consumer = bench.consumer(handler.ids(Ids::readable()));
        let consumer = consumer.store(quoting.store());
        for batch in [&["canary-key-a"][..], &["canary-key-a", "canary-key-b"]] {
            bench.deliver(&consumer, batch.iter().copied()).await;
        }
        let told = ends(bench.lines()).into_iter();
        reasons.extend(told.map(|(outcome, reason)| format!("{outcome}: {reason}\n")));
    }
    let bench = Bench::with_timeout(2 * SECOND);
    let readable = Handler::work().namespace("test").ids(Ids::readable());
    let idempotency = Idempotency::new(readable).store(quoting.store());
    let idempotency = idempotency.clock(bench.clock.clone());
    let invocation = idempotency.until(bench.deadline());
    let work = async || Ok::<_, HandlerError>("canary-data".to_owned());
    if let Err(error) = invocation.run("canary-key-a", work).await {
        assert_error_hidden(&error);
    }
    reasons
}

#[tokio::test(start_paused = true)]
async fn an_error_of_dynamodb_is_shown_without_what_it_quotes() {
    for (status, answer, code) in [
        (400, whole as Answer, "AccessDeniedException"),
        (400, whole, "ResourceNotFoundException"),
        (400, whole, "ProvisionedThroughputExceededException"),
        (400, whole, "ThrottlingException"),
        (400, whole, "ValidationException"),
        (400, whole, "ItemCollectionSizeLimitExceededException"),
        (400, whole, "TransactionConflictException"),
        (400, whole, "SomethingNewException"),
        (500, whole, "InternalServerError"),
        (200, each, "ValidationError"),
        (200, each, "AccessDenied"),
        (200, each, "ProvisionedThroughputExceeded"),
        (200, each, "ThrottlingError"),
        (200, each, "SomethingNew"),
    ] {
        let reasons = all_uses(&Quoting(status, answer, code)).await;
        assert!(reasons.contains("failed: "), "{code}: {reasons}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_refuses_is_not_shown() {
    for (answer, status, words) in [
        (refused as Answer, "COMPLETED", "duplicate: "),
        (refused, "INPROGRESS", "in_progress: "),
        (refused, "PAUSED", "\"PAUSED\""),
        (unreadable, "", "the item is not readable"),
    ] {
        // The HTTP status of a refusal depends on the operation, and the SDK depends on the status.
        let mut reasons = all_uses(&Quoting(200, answer, status)).await;
        reasons.push_str(&all_uses(&Quoting(400, answer, status)).await);
        assert!(reasons.contains(words), "{status}: {reasons}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_dynamodb_never_sends_is_not_shown() {
    let answers: [Answer; 4] = [
        |_, request, _| request.clone(),
        |_, request, _| Value::String(format!("<html>{request}</html>")),
        |_, request, _| Value::String(format!("canary{request}")),
        |_, request, _| json!({ "Responses": quoting(request), "Attributes": quoting(request) }),
    ];
    for answer in answers {
        for status in [200, 403, 503] {
            let reasons = all_uses(&Quoting(status, answer, "")).await;
            assert!(reasons.contains("failed: "), "{reasons}");
        }
    }
}
