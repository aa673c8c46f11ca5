//! Runs `cargo sqs-once postgres delete-expired` as a user does, on a real database.

use crate::project::{Run, command};
use postgres_for_tests::{Server, is_missing};
use sqs_once_postgres::SCHEMA_V1;
use std::sync::LazyLock;
use tokio_postgres::{Client, NoTls};

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// An empty database for one test.
struct Database {
    url: String,
    client: Client,
}

impl Database {
    async fn new() -> Self {
        let url = SERVER.create_database();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        Self { url, client }
    }

    /// Creates the table with `expired` rows to delete and one row to keep.
    async fn with_rows(expired: i32) -> Self {
        let database = Self::new().await;
        database.client.batch_execute(SCHEMA_V1).await.unwrap();
        for (name, count, days) in [("expired", expired, -2), ("stays", 1, 1)] {
            let rows = format!(
                "INSERT INTO processed_events (id, status, expiration)
                SELECT '{name}-' || n, 'COMPLETED', extract(epoch FROM now())::bigint + {days} * 86400
                FROM generate_series(1, {count}) AS n"
            );
            database.client.batch_execute(&rows).await.unwrap();
        }
        database
    }

    async fn rows(&self) -> i64 {
        let count = "SELECT count(*) FROM processed_events";
        self.client.query_one(count, &[]).await.unwrap().get(0)
    }
}

fn delete_expired(arguments: &[&str]) -> Run {
    Run::of(command(
        &[&["postgres", "delete-expired"], arguments].concat(),
    ))
}

/// Checks that a run succeeded with this result alone.
#[track_caller]
fn assert_deleted(run: &Run, result: &str) {
    run.assert_done();
    assert_eq!((&*run.stdout, &*run.stderr), (result, ""));
}

/// Checks that a run failed with this message alone.
#[track_caller]
fn assert_failed(run: &Run, message: &str) {
    run.assert_failed_with(message);
    assert_eq!(run.stdout, "");
    assert!(!run.stderr.contains("secret"), "{}", run.stderr);
}

#[tokio::test]
async fn expired_rows_go_in_batches_until_none_is_left() {
    if is_missing() {
        return;
    }
    let database = Database::with_rows(1001).await;
    let run = || delete_expired(&[&database.url]);
    assert_deleted(&run(), "deleted 1001 rows in 2 batches\n");
    assert_eq!(database.rows().await, 1);
    assert_deleted(&run(), "deleted 0 rows in 0 batches\n");
}

#[tokio::test]
async fn the_database_is_the_one_that_the_store_would_use() {
    if is_missing() {
        return;
    }
    let database = Database::with_rows(1).await;
    let mut command = command(&["postgres", "delete-expired"]);
    let run = Run::of(command.env("DATABASE_URL", &database.url));
    assert_deleted(&run, "deleted 1 row in 1 batch\n");
}

#[tokio::test]
async fn the_table_is_found_in_another_schema() {
    if is_missing() {
        return;
    }
    let database = Database::with_rows(3).await;
    let moved = "CREATE SCHEMA orders; ALTER TABLE processed_events SET SCHEMA orders";
    database.client.batch_execute(moved).await.unwrap();
    let and = if database.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{and}options=-csearch_path%3Dorders", database.url);
    let run = delete_expired(&[&url]);
    assert_deleted(&run, "deleted 3 rows in 1 batch\n");
}

#[tokio::test]
async fn a_missing_table_is_an_error_that_names_the_fix() {
    if is_missing() {
        return;
    }
    let database = Database::new().await;
    let run = delete_expired(&[&database.url]);
    assert_failed(&run, "schema/v1.sql");
}

#[tokio::test]
async fn a_role_that_may_not_delete_is_told_what_it_needs() {
    if is_missing() {
        return;
    }
    let database = Database::with_rows(1).await;
    let role = "CREATE ROLE reader LOGIN PASSWORD 'secret';
        GRANT SELECT, INSERT, UPDATE ON processed_events TO reader";
    database.client.batch_execute(role).await.unwrap();
    let (_, address) = database.url.split_once('@').unwrap();
    let url = format!("postgresql://reader:secret@{address}");
    let run = delete_expired(&[&url]);
    assert_failed(&run, "SELECT, UPDATE and DELETE");
    assert_eq!(database.rows().await, 2);
}

#[test]
fn an_unusable_url_is_an_error_that_names_the_variable_and_hides_the_password() {
    assert_failed(&delete_expired(&[]), "DATABASE_URL is not set");
    let url = "postgresql://orders:secret@host:port/db";
    assert_failed(&delete_expired(&[url]), "connection string");
}
