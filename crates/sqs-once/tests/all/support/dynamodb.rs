//! An embedded DynamoDB, and the real SDK's clients of it.

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::{Client, Config};
use sqs_once::DynamoDbStore;
use sqs_once_local::{KeyAttribute, LocalDynamoDb, TableDescription};

/// The settings of every client of the tests.
pub(crate) fn config(endpoint: &str) -> aws_sdk_dynamodb::config::Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .endpoint_url(endpoint)
}

/// A store of the default table, over real HTTP.
pub(crate) fn store(endpoint: &str) -> DynamoDbStore {
    let http = aws_smithy_http_client::Builder::new().build_http();
    let client = Client::from_conf(config(endpoint).http_client(http).build());
    DynamoDbStore::new(client, TableDescription::default().name)
}

/// A DynamoDB with this table.
pub(crate) async fn local(table: &TableDescription) -> LocalDynamoDb {
    let local = LocalDynamoDb::memory().await.unwrap();
    local.create_table(table).unwrap();
    local
}

/// Creates the tables of a handler that sells articles.
pub(crate) fn create_shop(local: &LocalDynamoDb) {
    for name in ["orders", "stock"] {
        let table = TableDescription {
            name: name.to_owned(),
            partition_key: KeyAttribute::string("id"),
            sort_key: None,
            ttl_attribute: None,
        };
        local.create_table(&table).unwrap();
    }
}
