//! Operations on keys and dead letters.

#![allow(clippy::unwrap_used, reason = "a test")]

mod blocks;
mod conformance;
mod dead_letters;
mod errors;
mod groups;
mod keys;

use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use serde_json::Value;
use sqs_once::DynamoDbStore;
use sqs_once::key::Namespace;
use sqs_once_local::{LocalDynamoDb, REGION, TableDescription};

/// An embedded DynamoDB with an empty table.
async fn dynamodb(table: &TableDescription) -> (LocalDynamoDb, DynamoDbStore) {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(table).unwrap();
    let store = store(&dynamodb.endpoint(), table);
    (dynamodb, store)
}

/// A store of the table at an endpoint of DynamoDB.
fn store(endpoint: &str, table: &TableDescription) -> DynamoDbStore {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(REGION))
        .credentials_provider(credentials())
        .endpoint_url(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let client = aws_sdk_dynamodb::Client::from_conf(config);
    DynamoDbStore::new(client, &table.name)
}

/// A client of SQS at an endpoint, which sends each request once.
fn sqs(endpoint: &str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new(REGION))
        .credentials_provider(credentials())
        .endpoint_url(endpoint)
        .retry_config(RetryConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    aws_sdk_sqs::Client::from_conf(config.build())
}

fn credentials() -> Credentials {
    Credentials::new("test", "test", None, None, "test")
}

fn put(dynamodb: &LocalDynamoDb, item: Value) {
    dynamodb.put_item("sqs-once", item).unwrap();
}

fn payments() -> Namespace {
    Namespace::new("payments").unwrap()
}
