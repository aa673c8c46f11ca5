//! The number of DynamoDB requests for a batch, counted at the real SDK client.

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};

use crate::support::wire::Wire;
use crate::support::{Tested, dynamodb, noting};
use sqs_once::policy::Requests;
use sqs_once_local::{LocalDynamoDb, TableDescription};

/// A consumer of a real table, and the network between them. Tokio's clock is stopped. Otherwise, a slow machine would send
/// a group after 20 ms, before it is full.
async fn counted() -> (Tested, Wire, (LocalDynamoDb, Sender<()>)) {
    let local = dynamodb::local(&TableDescription::default()).await;
    let wire = Wire::to(&local.endpoint()).await;
    let store = dynamodb::store(&wire.endpoint());
    tokio::time::pause();
    // Tokio does not advance the clock while blocking code runs.
    let (held, until_dropped) = channel::<()>();
    tokio::task::spawn_blocking(move || until_dropped.recv());
    (noting().0.with(|it| it.store(store)), wire, (local, held))
}

fn numbers(range: Range<usize>) -> impl Iterator<Item = String> {
    range.map(|at| at.to_string())
}

#[tokio::test]
async fn a_hundred_new_keys_take_eight_requests_and_ten_take_two() {
    let (bench, wire, _local) = counted().await;
    for (keys, expected) in [(0..100, 8), (100..110, 2), (110..111, 2), (111..136, 2)] {
        assert_eq!(bench.run(numbers(keys.clone())).await, [""; 0]);
        let requests = wire.seen().len();
        assert_eq!(requests, expected, "{} keys", keys.len());
    }
}

#[tokio::test]
async fn duplicates_take_one_read_together_and_no_completion() {
    let (bench, wire, _local) = counted().await;
    bench.run(numbers(0..10)).await;
    wire.seen();
    assert_eq!(bench.run(numbers(5..15)).await, [""; 0]);
    let mut requests = wire.seen();
    requests.sort();
    let [write, read] = ["BatchExecuteStatement", "BatchGetItem"];
    assert_eq!(requests, [write, write, read]);
}

#[tokio::test]
async fn failures_are_released_together_with_the_completions() {
    let (bench, wire, _local) = counted().await;
    let failed = bench.run(["a", "bad-1", "b", "bad-2"]).await;
    assert_eq!(failed, ["m-1", "m-3"]);
    assert_eq!(wire.seen(), ["BatchExecuteStatement"; 2]);
}

#[tokio::test]
async fn a_key_takes_two_requests_of_its_own_where_requests_are_single() {
    let (bench, wire, _local) = counted().await;
    let bench = bench.with(|it| it.requests(Requests::Single));
    assert_eq!(bench.run(numbers(0..40)).await, [""; 0]);
    assert_eq!(wire.seen().len(), 80);
    // A duplicate takes one request.
    assert_eq!(bench.run(numbers(0..40)).await, [""; 0]);
    assert_eq!(wire.seen(), ["UpdateItem"; 40]);
}
