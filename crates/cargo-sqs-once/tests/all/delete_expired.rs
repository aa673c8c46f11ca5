//! Runs `cargo sqs-once delete-expired` as a user does, on a real database.

use postgres_for_tests::Server;
use sqs_once_postgres::SCHEMA_V1;
use std::process::{Command, Output};
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
        let day_before_yesterday = "INSERT INTO processed_events (id, status, expiration)
            SELECT n, 'COMPLETED', extract(epoch FROM now())::bigint - 2 * 86400
            FROM generate_series(1, $1) AS n";
        database
            .client
            .execute(day_before_yesterday, &[&expired])
            .await
            .unwrap();
        let tomorrow = "INSERT INTO processed_events (id, status, expiration)
            VALUES ('stays', 'COMPLETED', extract(epoch FROM now())::bigint + 86400)";
        database.client.batch_execute(tomorrow).await.unwrap();
        database
    }

    async fn rows(&self) -> i64 {
        let count = "SELECT count(*) FROM processed_events";
        self.client.query_one(count, &[]).await.unwrap().get(0)
    }
}

fn delete_expired(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-sqs-once"));
    command
        .arg("delete-expired")
        .args(arguments)
        .env_remove("SQS_ONCE_POSTGRES_URL")
        .env_remove("DATABASE_URL");
    command
}

/// Standard output of a run that succeeded and wrote nothing to standard error.
fn told(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a run that failed and wrote nothing to standard output.
fn complaint(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && stdout.is_empty(), "{stdout}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test]
async fn expired_rows_go_in_batches_until_none_is_left() {
    let database = Database::with_rows(5).await;
    let arguments = ["--database", &database.url, "--batch", "2"];
    let first = delete_expired(&arguments).output().unwrap();
    assert_eq!(told(&first), "deleted 5 rows in 3 batches\n");
    assert_eq!(database.rows().await, 1);
    let second = delete_expired(&arguments).output().unwrap();
    assert_eq!(told(&second), "deleted 0 rows in 0 batches\n");
}

#[tokio::test]
async fn the_database_is_the_one_that_the_store_would_use() {
    for variable in ["SQS_ONCE_POSTGRES_URL", "DATABASE_URL"] {
        let database = Database::with_rows(1).await;
        let output = delete_expired(&[])
            .env(variable, &database.url)
            .output()
            .unwrap();
        assert_eq!(told(&output), "deleted 1 row in 1 batch\n");
    }
}

#[tokio::test]
async fn the_table_is_found_in_another_schema() {
    let database = Database::with_rows(3).await;
    let moved = "CREATE SCHEMA orders; ALTER TABLE processed_events SET SCHEMA orders";
    database.client.batch_execute(moved).await.unwrap();
    let arguments = ["--database", &database.url, "--schema", "orders"];
    let output = delete_expired(&arguments).output().unwrap();
    assert_eq!(told(&output), "deleted 3 rows in 1 batch\n");
}

#[tokio::test]
async fn a_missing_table_is_an_error_that_names_the_fix() {
    let database = Database::new().await;
    let output = delete_expired(&["--database", &database.url])
        .output()
        .unwrap();
    let complaint = complaint(&output);
    assert!(complaint.contains("schema/v1.sql"), "{complaint}");
}

#[tokio::test]
async fn a_role_that_may_not_delete_is_told_what_it_needs() {
    let database = Database::with_rows(1).await;
    let role = "CREATE ROLE reader LOGIN PASSWORD 'secret';
        GRANT SELECT, INSERT, UPDATE ON processed_events TO reader";
    database.client.batch_execute(role).await.unwrap();
    let (_, address) = database.url.split_once('@').unwrap();
    let url = format!("postgresql://reader:secret@{address}");
    let complaint = complaint(&delete_expired(&["--database", &url]).output().unwrap());
    assert!(
        complaint.contains("SELECT, UPDATE and DELETE"),
        "{complaint}"
    );
    assert!(!complaint.contains("secret"), "{complaint}");
    assert_eq!(database.rows().await, 2);
}

#[test]
fn without_a_database_it_names_the_variable() {
    let complaint = complaint(&delete_expired(&[]).output().unwrap());
    assert!(
        complaint.contains("SQS_ONCE_POSTGRES_URL is not set"),
        "{complaint}"
    );
}

#[test]
fn a_malformed_url_is_refused_without_showing_the_password() {
    let url = "postgresql://orders:secret@host:port/db";
    let complaint = complaint(&delete_expired(&["--database", url]).output().unwrap());
    assert!(complaint.contains("connection string"), "{complaint}");
    assert!(!complaint.contains("secret"), "{complaint}");
}
