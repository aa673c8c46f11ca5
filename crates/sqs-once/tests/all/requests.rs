//! The number of DynamoDB requests for a batch, counted at the real SDK client.

use std::ops::Range;

use crate::support::dynamodb::DynamoDb;
use crate::support::{Tested, noting};
use sqs_once::policy::Requests;

/// A consumer of a real table.
fn counted() -> (Tested, DynamoDb) {
    let dynamodb = DynamoDb::start();
    let bench = noting().0.with(|it| it.store(dynamodb.store()));
    (bench, dynamodb)
}

fn numbers(range: Range<usize>) -> impl Iterator<Item = String> {
    range.map(|at| at.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_hundred_new_keys_take_eight_requests_and_ten_take_two() {
    let (bench, dynamodb) = counted();
    for (keys, expected) in [(0..100, 8), (100..110, 2), (110..111, 2), (111..136, 2)] {
        assert_eq!(bench.run(numbers(keys.clone())).await, [""; 0]);
        let requests = dynamodb.take_operations().len();
        assert_eq!(requests, expected, "{} keys", keys.len());
    }
}

#[tokio::test(start_paused = true)]
async fn duplicates_take_one_read_together_and_no_completion() {
    let (bench, dynamodb) = counted();
    bench.run(numbers(0..10)).await;
    dynamodb.take_operations();
    assert_eq!(bench.run(numbers(5..15)).await, [""; 0]);
    let mut requests = dynamodb.take_operations();
    requests.sort();
    let [write, read] = ["BatchExecuteStatement", "BatchGetItem"];
    assert_eq!(requests, [write, write, read]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_released_together_with_the_completions() {
    let (bench, dynamodb) = counted();
    assert_eq!(
        bench.run(["a", "bad-1", "b", "bad-2"]).await,
        ["m-1", "m-3"]
    );
    assert_eq!(dynamodb.take_operations(), ["BatchExecuteStatement"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_key_takes_two_requests_of_its_own_where_requests_are_single() {
    let (bench, dynamodb) = counted();
    let bench = bench.with(|it| it.requests(Requests::Single));
    assert_eq!(bench.run(numbers(0..40)).await, [""; 0]);
    assert_eq!(dynamodb.take_operations().len(), 80);
    // A duplicate takes one request.
    assert_eq!(bench.run(numbers(0..40)).await, [""; 0]);
    assert_eq!(dynamodb.take_operations(), ["UpdateItem"; 40]);
}
