//! The parts of a failed statement that a handler's error shows.

use sqs_once_postgres::without_values;
use tokio_postgres::Error;

use crate::support::{Database, connect, server};

/// Creates the table and returns the error of a statement.
async fn error_of(statement: &str) -> Error {
    let client = connect(&server().create_database()).await;
    let table = "CREATE TABLE cards (card text PRIMARY KEY, cents int CONSTRAINT positive CHECK (cents > 0));
        INSERT INTO cards VALUES ('4111', 7)";
    client.batch_execute(table).await.unwrap();
    client.batch_execute(statement).await.unwrap_err()
}

#[tokio::test]
async fn what_a_constraint_was_violated_with_is_not_shown_and_the_constraint_is() {
    for (statement, code, name) in [
        (
            "INSERT INTO cards VALUES ('4111', 8)",
            "23505",
            "cards_pkey",
        ),
        ("INSERT INTO cards VALUES ('4111', -1)", "23514", "positive"),
    ] {
        let error = error_of(statement).await;
        assert!(format!("{error:?}").contains("4111"), "{error:?}");
        let error = without_values(error);
        let shown = format!("{} {error} {error:?}", error.chain());
        assert!(shown.contains(code) && shown.contains(name), "{shown}");
        assert!(!shown.contains("4111"), "{shown}");
        assert!(!error.is_terminal());
    }
}

#[tokio::test]
async fn malformed_data_is_not_quoted() {
    let error = error_of("SELECT 'secret'::int").await;
    assert!(format!("{error:?}").contains("secret"), "{error:?}");
    let error = without_values(error);
    let shown = format!("{} {error:?}", error.chain());
    assert!(shown.contains("22P02"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn an_error_of_the_connection_stays_as_it_is() {
    let database = Database::new().await;
    let end = "SELECT pg_terminate_backend(pg_backend_pid())";
    database.client.batch_execute(end).await.unwrap_err();
    let error = database.client.batch_execute("SELECT 1").await.unwrap_err();
    let said = error.to_string();
    assert_eq!(without_values(error).to_string(), said);
}
