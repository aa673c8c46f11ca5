//! Errors that the store returns for failures of the database.

use std::error::Error;
use std::iter;

use postgres_for_tests::Server;
use sqs_once::store::{Store, StoreError, StoreErrorKind};
use sqs_once_postgres::{PostgresStore, without_values};

use crate::support::{
    Database, completion, connect, is_written, new_claims, open, server, settlement,
};

/// The store's error for a new claim.
async fn refusal(store: &PostgresStore) -> StoreError {
    store.claim(&new_claims(1)).await.remove(0).unwrap_err()
}

fn assert_error(error: &StoreError, kind: StoreErrorKind, text: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "{error}");
}

/// Asserts this error for the database at `url`.
async fn assert_refused(url: &str, kind: StoreErrorKind, text: &str) {
    let error = refusal(&PostgresStore::from_url(url).unwrap()).await;
    assert_error(&error, kind, text);
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
    assert_refused(&url, StoreErrorKind::TableNotFound, "schema/v1.sql").await;
    let store = PostgresStore::from_url(&url).unwrap();
    let error = refusal(&store.schema("nowhere")).await;
    assert_error(&error, StoreErrorKind::TableNotFound, "");
}

#[tokio::test]
async fn a_table_of_another_version_is_not_written_to() {
    for change in [
        "RENAME CONSTRAINT processed_events_v1 TO processed_events_v2",
        "DROP COLUMN validation",
    ] {
        let database = Database::new().await;
        let change = format!("ALTER TABLE processed_events {change}");
        database.run(&change).await;
        let error = refusal(&database.store).await;
        assert_error(&error, StoreErrorKind::KeySchema, "");
        assert!(error.is_permanent());
    }
}

#[tokio::test]
async fn a_connection_that_the_server_refuses_is_an_error_that_says_why() {
    let database = Database::new().await;
    let roles = "CREATE ROLE stranger LOGIN PASSWORD 'x';
        CREATE ROLE lonely LOGIN PASSWORD 'x' CONNECTION LIMIT 0;
        GRANT SELECT, INSERT, UPDATE ON processed_events TO lonely";
    database.run(roles).await;
    let url = database.url.as_str();
    let missing = url.replace("/test_", "/no_test_");
    let stranger = of_user(url, "stranger", "x");
    use StoreErrorKind::{AccessDenied, Other, Throttled};
    for (url, kind, text) in [
        (stranger, AccessDenied, "grant the role"),
        (of_user(url, "lonely", "x"), Throttled, "max_connections"),
        (missing, AccessDenied, "no_test_"),
        (format!("{url}?sslmode=require"), Other, "sslmode=disable"),
    ] {
        assert_refused(&url, kind, text).await;
    }
}

#[tokio::test]
async fn a_role_with_the_documented_privileges_needs_no_others() {
    let database = Database::new().await;
    let role = "CREATE ROLE worker LOGIN PASSWORD 'worker';
        GRANT SELECT, INSERT, UPDATE ON processed_events TO worker";
    database.run(role).await;
    let url = of_user(&database.url, "worker", "worker");
    let store = PostgresStore::from_url(&url).unwrap();
    let claims = new_claims(1);
    assert!(is_written(&store.claim(&claims).await[0]));
    let settlements = [settlement(&claims[0], completion())];
    assert!(store.settle(&settlements).await[0].is_ok());
    let error = store.delete_expired(1.try_into().unwrap()).await;
    assert_eq!(error.unwrap_err().kind(), StoreErrorKind::AccessDenied);
}

#[tokio::test]
async fn a_wrong_password_is_denied_access_and_not_shown() {
    let url = of_user(&server().create_database(), "postgres", "hunter2");
    let store = PostgresStore::from_url(&url).unwrap();
    let error = refusal(&store).await;
    assert_error(&error, StoreErrorKind::AccessDenied, "");
    let shown = format!("{} {store:?}", shown(&error));
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn a_pool_whose_connections_are_all_in_use_is_a_throttled_store() {
    let database = Database::new().await;
    let store = database.store.clone().connections(1);
    let _transaction = open(&store, &new_claims(1)[0]).await;
    let error = refusal(&store).await;
    assert_error(&error, StoreErrorKind::Throttled, "in use");
    assert!(error.to_string().contains(".connections("), "{error}");
    // It raises the number of handlers too.
    assert!(!error.to_string().contains("CONCURRENCY"), "{error}");
}

/// Runs this code whenever a row changes.
fn trigger(code: &str) -> String {
    format!(
        "CREATE FUNCTION reacts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {code}; RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER reacts AFTER INSERT OR UPDATE ON processed_events
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION reacts()"
    )
}

#[tokio::test]
async fn no_error_of_a_commit_shows_the_value_that_it_failed_with() {
    let constraint = "CREATE TABLE owners (owner text COLLATE \"C\" PRIMARY KEY);
        ALTER TABLE processed_events ADD FOREIGN KEY (owner) REFERENCES owners
            DEFERRABLE INITIALLY DEFERRED";
    let cast = trigger("PERFORM ('v' || NEW.owner)::int");
    for (refuses, code) in [(constraint, "23503"), (&cast, "22P02")] {
        let database = Database::new().await;
        database.run(refuses).await;
        let claim = new_claims(1).remove(0);
        let transaction = open(&database.store, &claim).await;
        let committed = transaction
            .commit(vec![settlement(&claim, completion())])
            .await;
        let shown = shown(&committed.unwrap_err());
        assert!(shown.contains(code), "{shown}");
        assert!(!shown.contains(&claim.owner.to_string()), "{shown}");
    }
}

#[tokio::test]
async fn a_transaction_that_took_too_long_for_the_server_has_lost_its_connection() {
    let database = Database::new().await;
    // The code of `transaction_timeout`, which PostgreSQL 17 introduced.
    let ends = trigger("RAISE SQLSTATE '25P04'");
    database.run(&ends).await;
    let error = refusal(&database.store).await;
    assert_error(&error, StoreErrorKind::Unanswered, "25P04");
}

#[tokio::test]
async fn certificates_are_verified_against_the_authority_that_was_named() {
    let (server, other) = (Server::start_with_tls(), Server::start_with_tls());
    let database = server.create_database();
    let [authority, another] = [&server, &other].map(|one| one.authority().unwrap().display());
    let of_another = format!("sslmode=require&sslrootcert={another}");
    let trusting = |mode| format!("{database}?sslmode={mode}&sslrootcert={authority}");
    use StoreErrorKind::{AccessDenied, Other, TableNotFound};

    // The connection succeeds. The database is empty.
    for mode in ["require", "verify-ca", "verify-full", "prefer"] {
        assert_refused(&trusting(mode), TableNotFound, "").await;
    }
    for parameters in ["sslmode=require", "sslmode=prefer", &of_another] {
        assert_refused(&format!("{database}?{parameters}"), Other, "sslrootcert").await;
    }
    let named = trusting("require").replace("127.0.0.1", "localhost");
    assert_refused(&named, Other, "not valid for name").await;

    server.restart();
    let by_default = format!("{database}?sslrootcert={authority}");
    assert_refused(&by_default, TableNotFound, "").await;
    assert_refused(&format!("{database}?sslmode=disable"), AccessDenied, "").await;
}

#[tokio::test]
async fn where_a_root_certificate_is_named_a_server_without_tls_is_refused() {
    let with_tls = Server::start_with_tls();
    let authority = with_tls.authority().unwrap().display();
    let url = format!("{}?sslrootcert={authority}", server().create_database());
    assert_refused(&url, StoreErrorKind::Other, "").await;
    // The connection succeeds. The database is empty.
    let without = format!("{url}&sslmode=disable");
    assert_refused(&without, StoreErrorKind::TableNotFound, "").await;
}

/// Creates a table of cards and returns the error of a statement.
async fn error_of(statement: &str) -> tokio_postgres::Error {
    let client = connect(&server().create_database()).await;
    let table = "CREATE TABLE cards (card text PRIMARY KEY, cents int CONSTRAINT positive CHECK (cents > 0));
        INSERT INTO cards VALUES ('4111', 7)";
    client.batch_execute(table).await.unwrap();
    client.batch_execute(statement).await.unwrap_err()
}

#[tokio::test]
async fn a_handlers_error_does_not_show_the_values_that_its_statement_failed_with() {
    for (statement, value, code, constraint) in [
        (
            "INSERT INTO cards VALUES ('4111', 8)",
            "4111",
            "23505",
            "cards_pkey",
        ),
        (
            "INSERT INTO cards VALUES ('4111', -1)",
            "4111",
            "23514",
            "positive",
        ),
        ("SELECT 'secret'::int", "secret", "22P02", ""),
    ] {
        let error = error_of(statement).await;
        assert!(format!("{error:?}").contains(value), "{error:?}");
        let error = without_values(error);
        let shown = format!("{} {error} {error:?}", error.chain());
        assert!(
            shown.contains(code) && shown.contains(constraint),
            "{shown}"
        );
        assert!(!shown.contains(value), "{shown}");
        assert!(!error.is_terminal());
    }
    // An error of the connection stays as it is.
    let client = connect(&server().create_database()).await;
    let end = "SELECT pg_terminate_backend(pg_backend_pid())";
    client.batch_execute(end).await.unwrap_err();
    let error = client.batch_execute("SELECT 1").await.unwrap_err();
    let said = error.to_string();
    assert_eq!(without_values(error).to_string(), said);
}
