#[path = "../as_lambda.rs"]
mod as_lambda;

use postgres_for_tests::Server;
use sqs_once::testing::Record;
use sqs_once_postgres::deadpool_postgres::tokio_postgres::{Client, NoTls, connect};
use sqs_once_postgres::{PostgresStore, SCHEMA_V1};

use super::{TABLES, consumer};

/// A database with an account, and the consumer that books on it.
struct Bank {
    _server: Server,
    url: String,
    client: Client,
}

impl Bank {
    async fn open() -> Self {
        let server = Server::start();
        let url = server.create_database();
        let (client, connection) = connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let account = "INSERT INTO accounts VALUES ('a-7', 0)";
        for statements in [SCHEMA_V1, TABLES, account] {
            client.batch_execute(statements).await.unwrap();
        }
        Self {
            _server: server,
            url,
            client,
        }
    }

    /// Returns the ids of the messages that go back to the queue.
    async fn run(&self, records: impl IntoIterator<Item = Record>) -> Vec<String> {
        let store = PostgresStore::from_url(&self.url).unwrap();
        as_lambda::run(&consumer(store), records).await
    }

    async fn cents(&self) -> i64 {
        let select = "SELECT cents FROM accounts WHERE id = 'a-7'";
        self.client.query_one(select, &[]).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn a_payment_that_comes_twice_is_booked_once_and_one_that_fails_is_not_booked() {
    let bank = Bank::open().await;
    let payment = || Record::text(include_str!("event.json"));
    assert!(bank.run([payment()]).await.is_empty());
    assert!(bank.run([payment()]).await.is_empty());
    assert_eq!(bank.cents().await, 1299);

    let overdrawn = Record::text(r#"{"payment_id": "p-2", "account": "a-7", "cents": -2000}"#);
    let nobodys = Record::text(r#"{"payment_id": "p-3", "account": "a-8", "cents": 1}"#);
    assert_eq!(bank.run([overdrawn, nobodys]).await, ["m-1", "m-2"]);
    assert_eq!(bank.cents().await, 1299);
}
