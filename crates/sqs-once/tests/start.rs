//! The store's first request, made at the start: what it brings, and that its failure keeps nothing from
//! starting.

#![allow(clippy::unwrap_used, reason = "a test")]

// Apart from `support`: the other tests do without an embedded DynamoDB.
#[path = "support/dynamodb.rs"]
mod dynamodb;
mod support;

use std::time::Duration;

use dynamodb::DynamoDb;
use sqs_once::key::ItemId;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, StoreErrorKind, StoreFuture};
use sqs_once::{Consumer, DynamoDbStore, Idempotency, Mode, Store};
use sqs_once_local::TableDescription;
use support::{Bench, TestStore, event, noting, order};
use tokio::time::Instant;

/// A batch is handled as ever.
async fn assert_works(bench: &Bench, consumer: &Consumer) {
    let retried = bench.invoke(consumer, event([order("a")])).await;
    assert!(retried.is_empty(), "{}", bench.log.all());
}

#[tokio::test(start_paused = true)]
async fn a_start_is_one_read_that_finds_nothing() {
    for mode in [Mode::ClaimFirst, Mode::RecordAfter] {
        let bench = Bench::new();
        let (consumer, _) = noting(&bench);
        let consumer = consumer.mode(mode);
        consumer.init().await.unwrap();
        assert_eq!(bench.store.take_calls(), [("read", 1)]);
        assert!(bench.log.take("sqs_once::store").is_empty());
        assert_works(&bench, &consumer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_without_sqs_is_the_same_read() {
    let bench = Bench::new();
    let idempotency = Idempotency::new()
        .namespace("test")
        .store(bench.store.clone());
    bench.store.fail("read", StoreErrorKind::TableNotFound, 1);
    idempotency.init().await.unwrap();
    assert_eq!(bench.store.take_calls(), [("read", 1)]);
    assert_eq!(bench.log.take("sqs_once::store").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_start_the_first_batch_reads_nothing() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    assert_works(&bench, &consumer).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_store_refuses_says_what_to_do_and_succeeds() {
    for (kind, level, fix) in [
        (StoreErrorKind::TableNotFound, "ERROR", "SQS_ONCE_TABLE"),
        (StoreErrorKind::AccessDenied, "ERROR", "the function's role"),
        (StoreErrorKind::NoCredentials, "ERROR", "AWS_ACCESS_KEY_ID"),
        (StoreErrorKind::KeySchema, "ERROR", "partition key `id`"),
        (StoreErrorKind::Other, "ERROR", "see what it says"),
        (StoreErrorKind::Throttled, "WARN", "capacity"),
        (StoreErrorKind::Unanswered, "WARN", "endpoint"),
    ] {
        let bench = Bench::new();
        let (consumer, _) = noting(&bench);
        bench.store.fail("read", kind, 1);
        consumer.init().await.unwrap();
        let lines = bench.log.take("sqs_once::store");
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["level"], level);
        assert!(lines[0]["error"].contains(fix), "{lines:?}");
        assert_works(&bench, &consumer).await;
    }
}

/// A store with reads of its own.
struct Reading {
    inner: TestStore,
    read: fn() -> StoreFuture<'static, Option<Item>>,
}

impl Store for Reading {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.inner.claim(claims)
    }
    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.inner.settle(settlements)
    }
    fn read<'a>(&'a self, _: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        (self.read)()
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_three_seconds_for_a_silent_store() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(Reading {
        inner: bench.store.clone(),
        read: || Box::pin(std::future::pending()),
    });
    let begun = Instant::now();
    consumer.init().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    let lines = bench.log.take("sqs_once::store");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["level"], "WARN");
    assert_works(&bench, &consumer).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_is_one_request_to_a_table_and_leaves_no_item() {
    let table = TableDescription::default();
    let name = table.name.clone();
    let dynamodb = DynamoDb::start(table);
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(DynamoDbStore::new(dynamodb.client(), name));
    consumer.init().await.unwrap();
    assert_eq!(dynamodb.take_operations(), ["BatchGetItem"]);
    assert!(bench.log.take("sqs_once::store").is_empty());
    assert_works(&bench, &consumer).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_without_its_table_names_the_variable() {
    let dynamodb = DynamoDb::start(TableDescription::default());
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(DynamoDbStore::new(dynamodb.client(), "not-there"));
    consumer.init().await.unwrap();
    let lines = bench.log.take("sqs_once::store");
    assert_eq!(lines.len(), 1);
    assert!(lines[0]["error"].contains("SQS_ONCE_TABLE"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_survives_a_store_that_panics() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(Reading {
        inner: bench.store.clone(),
        read: || unimplemented!(),
    });
    consumer.init().await.unwrap();
    assert_eq!(bench.log.take("sqs_once::store")[0]["level"], "ERROR");
    assert_works(&bench, &consumer).await;
}
