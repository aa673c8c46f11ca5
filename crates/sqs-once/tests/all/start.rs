//! The store's first request at the start: its benefits, and that its failure does not prevent the start.

// Not in `support`, since the other tests need no embedded DynamoDB.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::support::dynamodb::DynamoDb;
use crate::support::{Bench, TestStore, event, noting, order};
use aws_lambda_events::event::sqs::SqsEvent;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use lambda_runtime::{Context, LambdaEvent};
use sqs_once::key::ItemId;
use sqs_once::policy::Mode;
use sqs_once::store::Store;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, StoreErrorKind, StoreFuture};
use sqs_once::testing::{Event, Record};
use sqs_once::time::Timestamp;
use sqs_once::{Consumer, DynamoDbStore, Idempotency};
use sqs_once_local::{LocalDynamoDb, TableDescription};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tower_service::Service;

/// The consumer handles a batch normally.
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

/// A store with its own `read`.
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
async fn a_start_logs_how_many_milliseconds_the_first_request_took() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(Reading {
        inner: bench.store.clone(),
        read: || {
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(250)).await;
                vec![Ok(None)]
            })
        },
    });
    consumer.init().await.unwrap();
    let lines = bench.log.take("sqs_once::idempotency::connect");
    assert_eq!(lines[0]["duration_ms"], "250.0");
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

/// A proxy to `endpoint` that counts its connections.
async fn counted(endpoint: &str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = endpoint.strip_prefix("http://").unwrap().to_owned();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            let mut far = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        }
    });
    (format!("http://{address}"), count)
}

#[tokio::test]
async fn the_first_batch_uses_the_connection_that_the_start_has_opened() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let table = TableDescription::default();
    dynamodb.create_table(&table).unwrap();
    let (endpoint, connections) = counted(&dynamodb.endpoint()).await;
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let mut consumer = sqs_once::consumer::<serde_json::Value>()
        .key(|_: &serde_json::Value| "o-1")
        .namespace("test")
        .store(DynamoDbStore::new(Client::from_conf(config), &table.name))
        .handler(async |_: serde_json::Value| {});

    consumer.init().await.unwrap();
    assert_eq!(connections.load(Ordering::SeqCst), 1);

    let event = Event::new([Record::text("{}")]);
    let event: SqsEvent = serde_json::from_str(event.as_json()).unwrap();
    let mut context = Context::default();
    let ends_at = SystemTime::now() + Duration::from_secs(60);
    context.deadline = Timestamp::from(ends_at).as_millis();
    let answer = consumer.call(LambdaEvent::new(event, context)).await;
    assert!(answer.unwrap().batch_item_failures.is_empty());
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}
