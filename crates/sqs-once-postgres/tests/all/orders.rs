//! A consumer whose effect is one row for each order, and checks on these rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use lambda_runtime::{Context, LambdaEvent};
use postgres_for_tests::Server;
use serde::Deserialize;
use sqs_once::consumer::Ready;
use sqs_once::time::{Clock, SystemClock};
use sqs_once::{Consumer, HandlerError};
use sqs_once_postgres::{PostgresStore, Transaction};
use tower_service::Service;

use crate::support::{Database, server};

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
}

/// A database with a table of orders, without a constraint against duplicates.
pub(crate) struct Orders {
    pub(crate) database: Database,
    /// The number of handler calls.
    pub(crate) calls: Arc<AtomicUsize>,
}

impl Orders {
    pub(crate) async fn new() -> Self {
        Self::on(server()).await
    }

    pub(crate) async fn on(server: &Server) -> Self {
        let database = Database::on(server).await;
        let table = "CREATE TABLE orders (id text NOT NULL)";
        database.client.batch_execute(table).await.unwrap();
        Self {
            database,
            calls: Arc::default(),
        }
    }

    /// A consumer with its own store, as in a separate process.
    pub(crate) fn consumer<F, Fut>(&self, handler: F) -> Consumer
    where
        F: Fn(Order, Transaction) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.consumer_at(&self.database.url, handler)
    }

    pub(crate) fn consumer_at<F, Fut>(&self, url: &str, handler: F) -> Consumer
    where
        F: Fn(Order, Transaction) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let calls = Arc::clone(&self.calls);
        sqs_once::consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .namespace("orders")
            .store(PostgresStore::from_url(url).unwrap())
            .handler(move |order: Order, tx: Transaction| {
                calls.fetch_add(1, Ordering::SeqCst);
                handler(order, tx)
            })
    }

    /// A consumer whose handler succeeds.
    pub(crate) fn sound(&self) -> Consumer {
        self.consumer(async |order, tx| insert(&order, &tx).await)
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The number of an order's rows, and the status of its key.
    pub(crate) async fn rows(&self, order: &str) -> (i64, Option<String>) {
        let count = "SELECT count(*) FROM orders WHERE id = $1";
        let client = &self.database.client;
        let count = client.query_one(count, &[&order]).await.unwrap().get(0);
        let status = "SELECT status FROM processed_events ORDER BY id";
        let status = client.query_opt(status, &[]).await.unwrap();
        (count, status.map(|row| row.get(0)))
    }

    pub(crate) async fn assert_done_once(&self, order: &str) {
        let done = (1, Some("COMPLETED".to_owned()));
        assert_eq!(self.rows(order).await, done);
    }

    pub(crate) async fn assert_nothing_happened(&self, order: &str) {
        assert_eq!(self.rows(order).await, (0, None));
    }
}

/// The handler's effect.
pub(crate) async fn insert(order: &Order, tx: &Transaction) -> Result<(), HandlerError> {
    let insert = "INSERT INTO orders (id) VALUES ($1)";
    assert_eq!(tx.execute(insert, &[&order.id]).await?, 1);
    Ok(())
}

/// Invokes a consumer with one message for each order, for up to a minute. Returns the orders of failed records.
pub(crate) async fn invoke(consumer: &Consumer<Ready>, orders: &[&str]) -> Vec<String> {
    invoke_for(Duration::from_secs(60), consumer, orders).await
}

pub(crate) async fn invoke_for(
    timeout: Duration,
    consumer: &Consumer<Ready>,
    orders: &[&str],
) -> Vec<String> {
    let records = orders.iter().map(|order| {
        serde_json::json!({
            "messageId": order,
            "body": serde_json::json!({ "id": order }).to_string(),
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
            "receiptHandle": "handle",
        })
    });
    let event = serde_json::json!({ "Records": records.collect::<Vec<_>>() });
    let event: SqsEvent = serde_json::from_value(event).unwrap();
    let mut context = Context::default();
    context.deadline = (SystemClock.now() + timeout).as_millis();
    let event = LambdaEvent::new(event, context);
    let response = consumer.clone().call(event).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier).collect()
}

/// Returns the session that waits for another's transaction, once there is one.
pub(crate) async fn until_somebody_waits(orders: &Orders) -> i32 {
    let waiting = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..100_000 {
        let waiting = orders.database.client.query_opt(waiting, &[]).await;
        if let Some(waiting) = waiting.unwrap() {
            return waiting.get(0);
        }
    }
    panic!("nobody waits");
}
