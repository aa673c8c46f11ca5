//! Errors that the store returns for failures of the database.

use std::error::Error;
use std::iter;
use std::time::Duration;

use postgres_for_tests::Server;
use sqs_once::store::{Begun, Claimed, Store, StoreError, StoreErrorKind, Transactions};
use sqs_once_postgres::PostgresStore;
use tokio::net::TcpListener;

use crate::support::{Database, completion, new_claims, server, settlement};

/// The store's error for a new claim.
async fn refusal(store: &PostgresStore) -> StoreError {
    store.claim(&new_claims(1)).await.remove(0).unwrap_err()
}

async fn refusal_at(url: &str) -> StoreError {
    refusal(&PostgresStore::from_url(url).unwrap()).await
}

/// An error with all of its sources, as in a log.
fn shown(error: &StoreError) -> String {
    let causes = iter::successors(Some(error as &dyn Error), |error| (*error).source());
    causes.map(|error| format!("{error} {error:?} ")).collect()
}

/// The same database with another user.
fn of_user(url: &str, user: &str, password: &str) -> String {
    let (_, server) = url.split_once('@').unwrap();
    format!("postgresql://{user}:{password}@{server}")
}

#[tokio::test]
async fn a_missing_table_names_the_file_that_makes_it() {
    let url = server().create_database();
    let error = refusal_at(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::TableNotFound, "{error}");
    assert!(error.to_string().contains("schema/v1.sql"), "{error}");
    let store = PostgresStore::from_url(&url).unwrap();
    let error = refusal(&store.schema("nowhere")).await;
    assert_eq!(error.kind(), StoreErrorKind::TableNotFound, "{error}");
}

#[tokio::test]
async fn a_table_of_another_version_is_not_written_to() {
    for change in [
        "RENAME CONSTRAINT processed_events_v1 TO processed_events_v2",
        "DROP COLUMN validation",
    ] {
        let database = Database::new().await;
        let change = format!("ALTER TABLE processed_events {change}");
        database.client.batch_execute(&change).await.unwrap();
        let error = refusal(&database.store).await;
        assert_eq!(error.kind(), StoreErrorKind::KeySchema, "{error}");
        assert!(error.is_permanent());
    }
}

#[tokio::test]
async fn a_role_without_privileges_is_denied_access() {
    let database = Database::new().await;
    let role = "CREATE ROLE stranger LOGIN PASSWORD 'stranger'";
    database.client.batch_execute(role).await.unwrap();
    let error = refusal_at(&of_user(&database.url, "stranger", "stranger")).await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
    assert!(error.to_string().contains("grant the role"), "{error}");
}

#[tokio::test]
async fn a_role_with_the_documented_privileges_needs_no_others() {
    let database = Database::new().await;
    let role = "CREATE ROLE worker LOGIN PASSWORD 'worker';
        GRANT SELECT, INSERT, UPDATE ON processed_events TO worker";
    database.client.batch_execute(role).await.unwrap();
    let url = of_user(&database.url, "worker", "worker");
    let store = PostgresStore::from_url(&url).unwrap();
    let claims = new_claims(1);
    assert!(matches!(
        store.claim(&claims).await[0],
        Ok(Claimed::Written { .. })
    ));
    let settlements = [settlement(&claims[0], completion())];
    assert!(store.settle(&settlements).await[0].is_ok());
    let error = store.delete_expired(1.try_into().unwrap()).await;
    assert_eq!(error.unwrap_err().kind(), StoreErrorKind::AccessDenied);
}

#[tokio::test]
async fn a_wrong_password_is_denied_access_and_not_shown() {
    let url = of_user(&server().create_database(), "postgres", "hunter2");
    let error = refusal_at(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
    let store = PostgresStore::from_url(&url).unwrap();
    let shown = format!("{} {store:?}", shown(&error));
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn a_missing_database_is_named() {
    let url = server().create_database().replace("/test_", "/no_test_");
    let error = refusal_at(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
    assert!(error.to_string().contains("no_test_"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_one_that_did_not_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let error = refusal_at(&format!("postgresql://u:p@{address}/x")).await;
    assert_eq!(error.kind(), StoreErrorKind::Unanswered, "{error}");
}

#[tokio::test]
async fn a_server_that_says_nothing_does_not_hold_up_a_request_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let error = refusal_at(&format!("postgresql://u:p@{address}/x")).await;
    assert_eq!(error.kind(), StoreErrorKind::Unanswered, "{error}");
}

#[tokio::test]
async fn too_many_connections_are_a_throttled_store() {
    let database = Database::new().await;
    let role = "CREATE ROLE lonely LOGIN PASSWORD 'lonely' CONNECTION LIMIT 0;
        GRANT SELECT, INSERT, UPDATE ON processed_events TO lonely";
    database.client.batch_execute(role).await.unwrap();
    let error = refusal_at(&of_user(&database.url, "lonely", "lonely")).await;
    assert_eq!(error.kind(), StoreErrorKind::Throttled, "{error}");
    assert!(error.to_string().contains("max_connections"), "{error}");
}

#[tokio::test]
async fn a_pool_whose_connections_are_all_in_use_is_a_throttled_store() {
    let database = Database::new().await;
    let store = database.store.clone().connections(1.try_into().unwrap());
    let claims = new_claims(1);
    let patience = Duration::from_secs(60);
    let open = store.begin(&claims[0], patience).await.unwrap();
    assert!(matches!(open, Begun::Open { .. }));
    let error = refusal(&store).await;
    assert_eq!(error.kind(), StoreErrorKind::Throttled, "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(error.to_string().contains(".connections("), "{error}");
}

#[tokio::test]
async fn no_error_shows_what_a_constraint_was_violated_with() {
    let database = Database::new().await;
    let constraint = "CREATE TABLE owners (owner text COLLATE \"C\" PRIMARY KEY);
        ALTER TABLE processed_events ADD FOREIGN KEY (owner) REFERENCES owners
            DEFERRABLE INITIALLY DEFERRED";
    database.client.batch_execute(constraint).await.unwrap();
    let claim = new_claims(1).remove(0);
    let patience = Duration::from_secs(60);
    let begun = database.store.begin(&claim, patience).await.unwrap();
    let Begun::Open { transaction, .. } = begun else {
        panic!("a new key was refused");
    };
    let committed = transaction.commit(settlement(&claim, completion())).await;
    let shown = shown(&committed.unwrap_err());
    assert!(shown.contains("23503"), "{shown}");
    assert!(!shown.contains(&claim.owner.to_string()), "{shown}");
}

#[tokio::test]
async fn certificates_are_verified_against_the_authority_that_was_named() {
    let server = Server::start_with_tls();
    let database = server.create_database();
    let authority = server.authority().unwrap().display();
    let error = |mode: String| async move { refusal_at(&mode).await };

    // The connection succeeds. The database is empty.
    for mode in ["require", "verify-ca", "verify-full", "prefer"] {
        let url = format!("{database}?sslmode={mode}&sslrootcert={authority}");
        let error = error(url).await;
        assert_eq!(error.kind(), StoreErrorKind::TableNotFound, "{error}");
    }
    for mode in ["require", "prefer"] {
        let error = error(format!("{database}?sslmode={mode}")).await;
        assert_eq!(error.kind(), StoreErrorKind::Other, "{error}");
        assert!(error.to_string().contains("sslrootcert"), "{error}");
    }
    let named = database.replace("127.0.0.1", "localhost");
    let url = format!("{named}?sslmode=require&sslrootcert={authority}");
    let error_of_name = error(url).await;
    assert_eq!(
        error_of_name.kind(),
        StoreErrorKind::Other,
        "{error_of_name}"
    );

    let error_of_default = error(format!("{database}?sslrootcert={authority}")).await;
    assert_eq!(
        error_of_default.kind(),
        StoreErrorKind::TableNotFound,
        "{error_of_default}"
    );

    let error = error(format!("{database}?sslmode=disable")).await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let url = server().create_database();
    let error = refusal_at(&format!("{url}?sslmode=require")).await;
    assert_eq!(error.kind(), StoreErrorKind::Other, "{error}");
    assert!(error.to_string().contains("sslmode=disable"), "{error}");
}

#[tokio::test]
async fn where_a_root_certificate_is_named_a_server_without_tls_is_refused() {
    let with_tls = Server::start_with_tls();
    let authority = with_tls.authority().unwrap().display();
    let url = format!("{}?sslrootcert={authority}", server().create_database());
    let error = refusal_at(&url).await;
    assert_eq!(error.kind(), StoreErrorKind::Other, "{error}");
    // The connection succeeds. The database is empty.
    let error = refusal_at(&format!("{url}&sslmode=disable")).await;
    assert_eq!(error.kind(), StoreErrorKind::TableNotFound, "{error}");
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
