//! How many requests to DynamoDB a batch costs, counted on the real SDK client.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, ConfigBag, Credentials, Intercept, Region, RuntimeComponents,
};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use sqs_once::{Consumer, DynamoDbStore, consumer};
use sqs_once_local::{LocalDynamoDb, TableDescription};
use support::{Bench, Order, event, order};

/// Notes the operation of every request that goes out.
#[derive(Clone, Debug, Default)]
struct Requests(Arc<Mutex<Vec<String>>>);

impl Requests {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Intercept for Requests {
    fn name(&self) -> &'static str {
        "Requests"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let target = context
            .request()
            .headers()
            .get("x-amz-target")
            .unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        self.0.lock().unwrap().push(operation.to_owned());
        Ok(())
    }
}

/// A consumer of a real table; orders called `bad-…` fail.
async fn counted(bench: &Bench) -> (Consumer, Requests, LocalDynamoDb) {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let table = TableDescription::default();
    dynamodb.create_table(&table).unwrap();
    let requests = Requests::default();
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::for_tests())
        .endpoint_url(dynamodb.endpoint())
        .http_client(
            aws_smithy_http_client::Builder::new()
                .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
                .build_https(),
        )
        .interceptor(requests.clone())
        .build();
    let store = DynamoDbStore::new(Client::from_conf(config), table.name);
    let failing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| {
            if order.id.starts_with("bad") {
                Err("no luck")
            } else {
                Ok(())
            }
        });
    (bench.consumer(failing).store(store), requests, dynamodb)
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

#[tokio::test]
async fn a_hundred_new_keys_take_eight_requests_and_ten_take_two() {
    let bench = Bench::new();
    let (consumer, requests, _dynamodb) = counted(&bench).await;
    for (keys, expected) in [(0..100, 8), (100..110, 2), (110..111, 2), (111..136, 2)] {
        assert!(
            bench
                .invoke(&consumer, orders(keys.clone()))
                .await
                .is_empty()
        );
        assert_eq!(requests.take().len(), expected, "{} keys", keys.len());
    }
}

#[tokio::test]
async fn a_duplicate_takes_one_update_and_no_completion() {
    let bench = Bench::new();
    let (consumer, requests, _dynamodb) = counted(&bench).await;
    bench.invoke(&consumer, orders(0..10)).await;
    requests.take();
    assert!(bench.invoke(&consumer, orders(5..15)).await.is_empty());
    let requests = requests.take();
    assert_eq!(of("BatchExecuteStatement", &requests), 2);
    assert_eq!(of("UpdateItem", &requests), 5);
    assert_eq!(requests.len(), 7);
}

#[tokio::test]
async fn duplicates_inside_a_batch_take_no_request() {
    let bench = Bench::new();
    let (consumer, requests, _dynamodb) = counted(&bench).await;
    let records = (0..50).map(|at| order(&(at % 5).to_string()));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(requests.take(), ["BatchExecuteStatement"; 2]);
}

#[tokio::test]
async fn failures_are_released_together_with_the_completions() {
    let bench = Bench::new();
    let (consumer, requests, _dynamodb) = counted(&bench).await;
    let records = ["a", "bad-1", "b", "bad-2"].map(order);
    assert_eq!(
        bench.invoke(&consumer, event(records)).await,
        ["m-1", "m-3"]
    );
    assert_eq!(requests.take(), ["BatchExecuteStatement"; 2]);
}
