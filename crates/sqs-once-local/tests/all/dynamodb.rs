//! Tests the embedded DynamoDB.

use crate::support::http;
use serde_json::json;
use sqs_once_local::{DynamoDbError, KeyAttribute, KeyType, LocalDynamoDb, TableDescription};

fn table() -> TableDescription {
    TableDescription::default()
}

#[tokio::test]
async fn a_table_is_served_over_http() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    let address = dynamodb
        .endpoint()
        .strip_prefix("http://")
        .unwrap()
        .parse()
        .unwrap();
    let headers = "Content-Type: application/x-amz-json-1.0\r\n\
                   X-Amz-Target: DynamoDB_20120810.ListTables\r\n\
                   X-Amz-Date: 20260101T000000Z\r\n\
                   Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/eu-central-1/dynamodb/aws4_request, \
                   SignedHeaders=host, Signature=0\r\n";
    let response = http(address, "POST", "/", headers, "{}").await;
    assert_eq!(response.status, 200);
    assert_eq!(
        response.header("Content-Type"),
        Some("application/x-amz-json-1.0")
    );
    assert_eq!(response.body, r#"{"TableNames":["sqs-once"]}"#);
}

#[tokio::test]
async fn items_can_be_put_and_read_back() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    let item = json!({"id": {"S": "orders#1"}, "fence": {"N": "7"}});
    dynamodb.put_item("sqs-once", item.clone()).unwrap();

    assert_eq!(
        dynamodb.items("sqs-once").unwrap(),
        std::slice::from_ref(&item)
    );
    let found = dynamodb
        .item("sqs-once", json!({"id": {"S": "orders#1"}}))
        .unwrap();
    assert_eq!(found, Some(item));
    assert_eq!(
        dynamodb
            .item("sqs-once", json!({"id": {"S": "orders#2"}}))
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn expired_items_are_not_deleted() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    let long_expired = json!({"id": {"S": "orders#1"}, "expiration": {"N": "1"}});
    dynamodb.put_item("sqs-once", long_expired.clone()).unwrap();
    assert_eq!(dynamodb.items("sqs-once").unwrap(), [long_expired]);
}

#[tokio::test]
async fn a_persisted_database_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/on/demand/dynamodb.sqlite");
    let item = json!({"id": {"S": "orders#1"}});
    let dynamodb = LocalDynamoDb::open(&path).await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    dynamodb.put_item("sqs-once", item.clone()).unwrap();
    dynamodb.stop().await;

    let dynamodb = LocalDynamoDb::open(&path).await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    assert_eq!(dynamodb.items("sqs-once").unwrap(), [item]);
}

#[tokio::test]
async fn a_removed_database_is_empty_when_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dynamodb.sqlite");
    let dynamodb = LocalDynamoDb::open(&path).await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    dynamodb
        .put_item("sqs-once", json!({"id": {"S": "orders#1"}}))
        .unwrap();
    dynamodb.stop().await;

    LocalDynamoDb::remove(&path).unwrap();
    let dynamodb = LocalDynamoDb::open(&path).await.unwrap();
    dynamodb.create_table(&table()).unwrap();
    assert!(dynamodb.items("sqs-once").unwrap().is_empty());
}

#[tokio::test]
async fn a_database_in_use_can_be_neither_opened_nor_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dynamodb.sqlite");
    let _first = LocalDynamoDb::open(&path).await.unwrap();
    let second = LocalDynamoDb::open(&path).await;
    assert!(matches!(second.err(), Some(DynamoDbError::InUse { .. })));
    assert!(matches!(
        LocalDynamoDb::remove(&path),
        Err(DynamoDbError::InUse { .. })
    ));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dynamodb.sqlite");
    std::fs::write(
        &path,
        "shopping list: milk, eggs, and enough text to be longer than a header",
    )
    .unwrap();
    let error = LocalDynamoDb::open(&path).await.err().unwrap();
    assert!(matches!(&error, DynamoDbError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("dynamodb.sqlite"), "{error}");
}

#[tokio::test]
async fn an_existing_table_with_other_keys_is_an_error_that_shows_both() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&table()).unwrap();
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
    let table = TableDescription {
        name: "effects".to_owned(),
        sort_key: Some(KeyAttribute {
            name: "at".to_owned(),
            kind: KeyType::N,
        }),
        ttl_attribute: None,
        ..table()
    };
    dynamodb.create_table(&table).unwrap();
    dynamodb.create_table(&table).unwrap();
    let item = json!({"id": {"S": "a"}, "at": {"N": "1"}});
    dynamodb.put_item("effects", item.clone()).unwrap();
    assert_eq!(dynamodb.items("effects").unwrap(), [item]);
}

#[tokio::test]
async fn a_table_that_is_not_there_is_an_error_with_dynamodbs_own_words() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let error = dynamodb.items("nowhere").unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("not found"), "{source}");
}

/// The file contains what handlers recorded, and business keys if these are readable.
#[cfg(unix)]
#[tokio::test]
async fn the_files_of_a_database_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("local.db");
    let dynamodb = LocalDynamoDb::open(&path).await.unwrap();
    dynamodb.create_table(&TableDescription::default()).unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} has the mode {mode:o}", file.path());
    }
}
