//! Deduplication: the identity of events, and the layout of the table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use serde_json::{Value, json};
use sqs_once::key::JsonPointer;
use sqs_once::policy::{MissingKey, PayloadMismatch};
use sqs_once::store::{LayoutError, TableLayout};
use sqs_once::testing::{Bench, Event};
use sqs_once::time::{Clock, SystemClock};
use sqs_once::{Consumer, DynamoDbStore, State, consumer};
use sqs_once_local::{KeyAttribute, LocalDynamoDb, TableDescription};
use tower_service::Service;

use crate::compatibility::{bench, one, orders};
use crate::support::wire::{Turn, Wire};

/// A record without a key is an error, and terminal by default. Peers warn and run it without protection, unless they
/// are configured to raise.
#[tokio::test(start_paused = true)]
async fn a_missing_key_is_an_error_by_default() {
    let (bench, effects) = bench();
    bench
        .run(Event::new([&json!({ "name": "no id" })]))
        .await
        .assert_terminal("m-1")
        .assert_retried(["m-1"]);
    assert!(effects.take().is_empty());
}

/// The other policies for a missing key retry the record, or run it without protection and with a warning, as peers do.
#[tokio::test(start_paused = true)]
async fn a_missing_key_is_retried_or_runs_unprotected_by_policy() {
    let event = Event::new([&json!({ "name": "no id" })]);
    let (orders, effects) = orders();
    let retrying = Bench::new(orders.clone().missing_key(MissingKey::Retry));
    retrying.run(&event).await.assert_failed("m-1");
    assert!(effects.take().is_empty());

    let unprotected = Bench::new(orders.missing_key(MissingKey::ProcessUnprotected));
    for _ in 0..2 {
        unprotected
            .run(&event)
            .await
            .assert_processed("m-1")
            .assert_reason("m-1", "not protected against duplicates");
    }
    assert_eq!(effects.take().len(), 2);
}

/// Without a key, no policy sends a request to the store.
#[tokio::test(start_paused = true)]
async fn without_a_key_there_is_no_request() {
    let policies = [
        MissingKey::Terminal,
        MissingKey::Retry,
        MissingKey::ProcessUnprotected,
    ];
    for policy in policies {
        let (orders, _) = orders();
        let bench = Bench::new(orders.missing_key(policy));
        bench.run(Event::new([&json!({ "name": "no id" })])).await;
        assert_eq!(bench.store().requests(), 0, "{policy:?}");
    }
}

/// Falsy values: `0` and `false` are keys of different kinds. Empty text, null, arrays, objects and fractions are not
/// keys. Different values never become one key.
#[tokio::test(start_paused = true)]
async fn zero_and_false_are_keys_and_empty_values_are_none() {
    let by_any_value = consumer::<Value>()
        .key(JsonPointer::new("/id"))
        .handler(async |_: Value| {});
    let bench = Bench::new(by_any_value);
    let ids = [
        json!(0),
        json!(false),
        json!("0"),
        json!("false"),
        json!("null"),
        json!(""),
        json!(" "),
        json!(null),
        json!([]),
        json!({}),
        json!(0.5),
    ];
    let orders: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    let answer = bench.run(Event::new(&orders)).await;
    for record in 1..=5 {
        answer.assert_processed(&format!("m-{record}"));
    }
    for record in 6..=11 {
        answer.assert_terminal(&format!("m-{record}"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_order_of_fields_changes_neither_key_nor_fingerprint() {
    let (orders, _) = orders();
    let bench = Bench::new(orders.payload_mismatch(PayloadMismatch::Reject));
    let body = |text| Event::new([sqs_once::testing::Record::text(text)]);
    let first = body(r#"{"id": "a", "customer": {"name": "n", "city": "c"}}"#);
    bench.run(first).await.assert_processed("m-1");
    let other = body(r#"{ "customer": { "city": "c", "name": "n" }, "id": "a" }"#);
    bench.run(other).await.assert_duplicate("m-1");
}

type Done = Arc<Mutex<Vec<&'static str>>>;

#[sqs_once::handler(key = order["id"].as_str())]
async fn charge(order: Value, State(done): State<Done>) {
    drop(order);
    done.lock().unwrap().push("charged");
}

#[sqs_once::handler(key = order["id"].as_str())]
async fn confirm(order: Value, State(done): State<Done>) {
    drop(order);
    done.lock().unwrap().push("confirmed");
}

/// Two functions with the same payload keep separate records.
///
/// Peers also separate functions by their Lambda names. Here only the namespace does, so two functions with the same
/// namespace share their keys.
#[tokio::test(start_paused = true)]
async fn two_functions_keep_separate_records_unless_they_share_a_namespace() {
    let done = Done::default();
    let charging = Bench::new(charge::consumer().state(done.clone()));
    let confirming = charging.beside(confirm::consumer().state(done.clone()));
    charging.run(one("a")).await.assert_processed("m-1");
    confirming.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*done.lock().unwrap(), ["charged", "confirmed"]);

    let [charge, confirm] = [charge::consumer(), confirm::consumer()]
        .map(|consumer| consumer.state(done.clone()).namespace("orders"));
    let charging = charging.beside(charge);
    charging.run(one("a")).await.assert_processed("m-1");
    let confirming = charging.beside(confirm);
    confirming.run(one("a")).await.assert_duplicate("m-1");
}

/// A DynamoDB, and a client with its endpoint.
async fn dynamodb(table: &TableDescription) -> LocalDynamoDb {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(table).unwrap();
    dynamodb
}

fn store(endpoint: &str, layout: TableLayout) -> Result<DynamoDbStore, LayoutError> {
    let patience = Duration::from_secs(20);
    let timeouts = TimeoutConfig::builder().operation_timeout(patience).build();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(endpoint)
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .timeout_config(timeouts)
        .retry_config(RetryConfig::disabled())
        .build();
    let table = TableDescription::default().name;
    DynamoDbStore::new(Client::from_conf(config), table).layout(layout)
}

/// Invokes a consumer as Lambda does, in real time. Returns the message IDs of the batch item failures.
async fn invoke(consumer: &Consumer, event: &Event) -> Vec<String> {
    let event = serde_json::from_str(event.as_json()).unwrap();
    let mut context = lambda_runtime::Context::default();
    context.deadline = (SystemClock.now() + Duration::from_secs(60)).as_millis();
    let event = lambda_runtime::LambdaEvent::new(event, context);
    let answer = consumer.clone().call(event).await.unwrap();
    let failures = answer.batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier).collect()
}

/// A table with a sort key and custom names, and the matching layout.
fn single_table() -> (TableDescription, TableLayout) {
    let table = TableDescription {
        partition_key: KeyAttribute::string("pk"),
        sort_key: Some(KeyAttribute::string("sk")),
        ttl_attribute: Some("ttl".to_owned()),
        ..TableDescription::default()
    };
    let layout = TableLayout::default()
        .partition_key("pk")
        .sort_key("sk")
        .partition_value("idempotency")
        .status("state")
        .in_progress_expiration("lease")
        .expiration("ttl")
        .validation("fingerprint")
        .data("result")
        .owner("worker")
        .fence("generation");
    (table, layout)
}

/// A table with a sort key: all items have the same partition value, and every request uses the custom attribute names.
#[tokio::test]
async fn a_sort_key_a_static_partition_value_and_custom_names_are_used_everywhere() {
    let (table, layout) = single_table();
    let dynamodb = dynamodb(&table).await;
    let (orders, effects) = orders();
    let store = store(&dynamodb.endpoint(), layout).unwrap();
    let orders = orders.namespace("orders").store(store);
    for _ in 0..2 {
        assert!(invoke(&orders, &one("a")).await.is_empty());
    }
    assert_eq!(effects.take(), ["a"]);

    let items = dynamodb.items(&table.name).unwrap();
    assert_eq!(items.len(), 1);
    let item: HashMap<String, Value> = serde_json::from_value(items[0].clone()).unwrap();
    assert_eq!(item["pk"]["S"], "idempotency");
    assert!(item["sk"]["S"].as_str().unwrap().starts_with("orders#"));
    assert_eq!(item["state"]["S"], "COMPLETED");
    let mut names: Vec<_> = item.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "fingerprint",
        "generation",
        "lease",
        "pk",
        "sk",
        "state",
        "ttl",
        "worker",
    ];
    assert_eq!(names, expected);
}

/// A layout in which the partition key and the sort key have the same name is rejected.
#[test]
fn a_partition_key_that_is_called_like_the_sort_key_is_refused() {
    let layout = TableLayout::default()
        .partition_key("pk")
        .sort_key("pk")
        .partition_value("idempotency");
    let refused = store("http://127.0.0.1:9", layout).unwrap_err();
    assert!(refused.to_string().contains("both \"pk\""), "{refused}");
}

/// If a refused conditional write does not return its item, a consistent read follows.
#[tokio::test]
async fn a_refusal_without_its_item_is_followed_by_a_consistent_read() {
    let dynamodb = dynamodb(&TableDescription::default()).await;
    let terse = r#"{"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}"#;
    let wire = Wire::to(&dynamodb.endpoint(), []).await;
    let (orders, effects) = orders();
    let store = store(&wire.endpoint(), TableLayout::default()).unwrap();
    let orders = orders.namespace("orders").store(store);
    assert!(invoke(&orders, &one("a")).await.is_empty());
    wire.seen();

    wire.next([Turn::Answer(400, terse.to_owned())]);
    assert!(invoke(&orders, &one("a")).await.is_empty());
    assert_eq!(wire.seen(), ["UpdateItem", "BatchGetItem"]);
    assert_eq!(effects.take(), ["a"]);
}
