//! The number of DynamoDB requests for a batch, counted at the real SDK client.

// Not in `support`, since the other tests need no embedded DynamoDB.

use crate::support::dynamodb::DynamoDb;
use crate::support::{Bench, Order, event, order};
use sqs_once::policy::Requests;
use sqs_once::{Consumer, DynamoDbStore, consumer};
use sqs_once_local::TableDescription;

/// A consumer of a real table. Orders named `bad-…` fail.
fn counted(bench: &Bench) -> (Consumer, DynamoDb) {
    let table = TableDescription::default();
    let name = table.name.clone();
    let dynamodb = DynamoDb::start(table);
    let store = DynamoDbStore::new(dynamodb.client(), name);
    let failing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| {
            if order.id.starts_with("bad") {
                Err("no luck")
            } else {
                Ok(())
            }
        });
    (bench.consumer(failing).store(store), dynamodb)
}

fn orders(range: std::ops::Range<usize>) -> serde_json::Value {
    event(range.map(|at| order(&at.to_string())))
}

fn of(operation: &str, requests: &[String]) -> usize {
    requests
        .iter()
        .filter(|request| *request == operation)
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_new_keys_take_eight_requests_and_ten_take_two() {
    let bench = Bench::new();
    let (consumer, dynamodb) = counted(&bench);
    for (keys, expected) in [(0..100, 8), (100..110, 2), (110..111, 2), (111..136, 2)] {
        assert!(
            bench
                .invoke(&consumer, orders(keys.clone()))
                .await
                .is_empty()
        );
        assert_eq!(
            dynamodb.take_operations().len(),
            expected,
            "{} keys",
            keys.len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn duplicates_take_one_read_together_and_no_completion() {
    let bench = Bench::new();
    let (consumer, dynamodb) = counted(&bench);
    bench.invoke(&consumer, orders(0..10)).await;
    dynamodb.take_operations();
    assert!(bench.invoke(&consumer, orders(5..15)).await.is_empty());
    let requests = dynamodb.take_operations();
    assert_eq!(of("BatchExecuteStatement", &requests), 2);
    assert_eq!(of("BatchGetItem", &requests), 1);
    assert_eq!(requests.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn duplicates_inside_a_batch_take_no_request() {
    let bench = Bench::new();
    let (consumer, dynamodb) = counted(&bench);
    let records = (0..50).map(|at| order(&(at % 5).to_string()));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(dynamodb.take_operations(), ["BatchExecuteStatement"; 2]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_released_together_with_the_completions() {
    let bench = Bench::new();
    let (consumer, dynamodb) = counted(&bench);
    let records = ["a", "bad-1", "b", "bad-2"].map(order);
    assert_eq!(
        bench.invoke(&consumer, event(records)).await,
        ["m-1", "m-3"]
    );
    assert_eq!(dynamodb.take_operations(), ["BatchExecuteStatement"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_key_takes_two_requests_of_its_own_where_requests_are_single() {
    let bench = Bench::new();
    let (consumer, dynamodb) = counted(&bench);
    let consumer = consumer.requests(Requests::Single);
    assert!(bench.invoke(&consumer, orders(0..40)).await.is_empty());
    assert_eq!(dynamodb.take_operations().len(), 80);
    // A duplicate takes one request.
    assert!(bench.invoke(&consumer, orders(0..40)).await.is_empty());
    assert_eq!(dynamodb.take_operations(), ["UpdateItem"; 40]);
}
