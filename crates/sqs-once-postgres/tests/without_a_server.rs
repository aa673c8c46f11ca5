//! Tests that need no server, and also run on a machine without PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::num::NonZeroU32;

use sqs_once::store::StoreErrorKind;
use sqs_once_postgres::PostgresStore;
use tokio::net::TcpListener;

#[tokio::test]
async fn a_server_that_is_not_there_or_says_nothing_is_one_that_did_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgresql://u:p@{}/x", silent.local_addr().unwrap());
    let store = PostgresStore::from_url(&url).unwrap();
    let refusal = async || {
        store
            .delete_expired(NonZeroU32::MIN)
            .await
            .unwrap_err()
            .kind()
    };
    assert_eq!(refusal().await, StoreErrorKind::Unanswered);
    drop(silent);
    assert_eq!(refusal().await, StoreErrorKind::Unanswered);
}

#[test]
fn a_file_without_certificates_keeps_a_function_from_starting() {
    for path in [
        "/nowhere/rds.pem",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ] {
        let url = format!("postgresql://u@127.0.0.1/x?sslrootcert={path}");
        let error = PostgresStore::from_url(&url).unwrap_err().to_string();
        assert!(error.contains(path), "{error}");
        assert!(error.contains("expected certificates"), "{error}");
    }
}
