//! Tests the embedded DynamoDB.

use crate::support::{address, http, raw};
use serde_json::json;
use sqs_once_local::{DynamoDbError, KeyAttribute, KeyType, LocalDynamoDb, TableDescription};
use std::path::PathBuf;

fn table() -> TableDescription {
    TableDescription::default()
}

async fn memory() -> LocalDynamoDb {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    dynamodb
}

/// A path for a database in a new folder.
fn file(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

const LIST_TABLES: &str = "Content-Type: application/x-amz-json-1.0\r\n\
    X-Amz-Target: DynamoDB_20120810.ListTables\r\n\
    X-Amz-Date: 20260101T000000Z\r\n\
    Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/eu-central-1/dynamodb/aws4_request, \
    SignedHeaders=host, Signature=0\r\n";

#[tokio::test]
async fn a_client_of_http_1_0_does_not_disturb_the_next_client() {
    let dynamodb = memory().await;
    let address = address(&dynamodb.endpoint());
    let request =
        format!("POST / HTTP/1.0\r\nHost: {address}\r\nContent-Length: 2\r\n{LIST_TABLES}\r\n{{}}");
    for _ in 0..3 {
        assert_eq!(raw(address, &request).await.status, 200);
    }
    let response = http(address, "POST", "/", LIST_TABLES, "{}").await;
    assert_eq!(response.status, 200, "{}", response.body);
}

#[tokio::test]
async fn items_can_be_put_and_read_back_even_expired_ones() {
    let dynamodb = memory().await;
    let item = json!({"id": {"S": "orders#1"}, "expiration": {"N": "1"}});
    dynamodb.put_item("sqs-once", item.clone()).unwrap();

    let items = dynamodb.items("sqs-once").unwrap();
    assert_eq!(items, std::slice::from_ref(&item));
    for (id, expected) in [("orders#1", Some(item)), ("orders#2", None)] {
        let found = dynamodb.item("sqs-once", json!({"id": {"S": id}}));
        assert_eq!(found.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_database_in_use_can_be_neither_opened_nor_removed() {
    let (_folder, path) = file("dynamodb.sqlite");
    let _first = LocalDynamoDb::open(&path).await.unwrap();
    let second = LocalDynamoDb::open(&path).await;
    assert!(matches!(second.err(), Some(DynamoDbError::InUse { .. })));
    let removed = LocalDynamoDb::remove(&path);
    assert!(matches!(removed, Err(DynamoDbError::InUse { .. })));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let (_folder, path) = file("dynamodb.sqlite");
    let list = "shopping list: milk, eggs, and enough text to be longer than a header";
    std::fs::write(&path, list).unwrap();
    let error = LocalDynamoDb::open(&path).await.err().unwrap();
    assert!(matches!(&error, DynamoDbError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("dynamodb.sqlite"), "{error}");
}

#[tokio::test]
async fn an_existing_table_with_other_keys_is_an_error_that_shows_both() {
    let dynamodb = memory().await;
    let other = TableDescription {
        partition_key: KeyAttribute::string("pk"),
        sort_key: Some(KeyAttribute {
            name: "sk".to_owned(),
            kind: KeyType::N,
        }),
        ..table()
    };
    let error = dynamodb.create_table(&other).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the table `sqs-once` exists with the keys id (S), but pk (S), sk (N) is wanted: \
         delete the local database to start afresh"
    );
}

#[tokio::test]
async fn a_table_with_a_sort_key_and_no_time_to_live_can_be_made_twice() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let error = dynamodb.items("effects").unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("not found"), "{source}");
    let table = TableDescription {
        name: "effects".to_owned(),
        sort_key: Some(KeyAttribute {
            name: "at".to_owned(),
            kind: KeyType::N,
        }),
        ttl_attribute: None,
        ..table()
    };
    for _ in 0..2 {
        dynamodb.create_table(&table).unwrap();
    }
    let item = json!({"id": {"S": "a"}, "at": {"N": "1"}});
    dynamodb.put_item("effects", item.clone()).unwrap();
    assert_eq!(dynamodb.items("effects").unwrap(), [item]);
}

/// The file contains the values of completions, and business keys if these are readable.
#[cfg(unix)]
#[tokio::test]
async fn the_files_of_a_database_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let (folder, path) = file("local.db");
    let dynamodb = LocalDynamoDb::open(&path).await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} has the mode {mode:o}", file.path());
    }
}
