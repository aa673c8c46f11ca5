//! A consumer whose effect is one row for each order, and checks on these rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Context, LambdaEvent};
use serde::Deserialize;
use serde_json::json;
use sqs_once::store::Timestamp;
use sqs_once::testing::{Event, Record};
use sqs_once::{Consumer, Handler, HandlerError};
use sqs_once_postgres::{PostgresStore, Transaction};
use tokio::sync::Notify;
use tower_service::Service;

use crate::support::{Database, until_waiting};

/// The failures of an invocation whose records are all acknowledged.
pub(crate) const ACKNOWLEDGED: [&str; 0] = [];

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
        let database = Database::new().await;
        let table = "CREATE TABLE orders (id text NOT NULL)";
        database.run(table).await;
        Self {
            database,
            calls: Arc::default(),
        }
    }

    /// A consumer with its own store, as in a separate process.
    pub(crate) fn consumer<F, Fut>(&self, function: F) -> Consumer
    where
        F: Fn(Order, Transaction) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        self.on_its_store(self.handler(function))
    }

    pub(crate) fn on_its_store(&self, handler: Handler) -> Consumer {
        Consumer::new(handler).store(PostgresStore::from_url(&self.database.url).unwrap())
    }

    /// A handler whose calls are counted.
    pub(crate) fn handler<F, Fut>(&self, function: F) -> Handler
    where
        F: Fn(Order, Transaction) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let calls = Arc::clone(&self.calls);
        let keyed = Handler::json::<Order>().key(|order: &Order| order.id.clone());
        let handler = keyed.call(move |order: Order, tx: Transaction| {
            calls.fetch_add(1, Ordering::SeqCst);
            function(order, tx)
        });
        handler.namespace("orders")
    }

    pub(crate) fn store_with_one_connection(&self) -> PostgresStore {
        let store = self.database.store.clone();
        store.connections(1)
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
pub(crate) async fn invoke(consumer: &Consumer, orders: &[impl AsRef<str>]) -> Vec<String> {
    invoke_for(Duration::from_secs(60), consumer, orders).await
}

pub(crate) async fn invoke_for(
    timeout: Duration,
    consumer: &Consumer,
    orders: &[impl AsRef<str>],
) -> Vec<String> {
    let messages = orders.iter().map(|order| (order.as_ref(), order.as_ref()));
    let event = event(messages, Timestamp::now() + timeout);
    failures(consumer.clone().call(event).await.unwrap())
}

/// An invocation with a message for each pair of a message ID and an order.
pub(crate) fn event<'a>(
    messages: impl Iterator<Item = (&'a str, &'a str)>,
    ends_at: Timestamp,
) -> LambdaEvent<SqsEvent> {
    let record = |(id, order)| Record::json(&json!({ "id": order })).message_id(id);
    let event = Event::new(messages.map(record));
    let mut context = Context::default();
    context.deadline = ends_at.as_millis();
    LambdaEvent::new(serde_json::from_str(event.as_json()).unwrap(), context)
}

/// The message IDs that an answer lists.
pub(crate) fn failures(answer: SqsBatchResponse) -> Vec<String> {
    let failures = answer.batch_item_failures.into_iter();
    failures.map(|failure| failure.item_identifier).collect()
}

/// The names of this many orders.
pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("o-{n:02}")).collect()
}

/// How handlers and work end badly.
pub(crate) const BAD_ENDS: [&str; 6] = [
    "error",
    "deadline",
    "swallowed error",
    "ROLLBACK",
    "ROLLBACK; BEGIN",
    "own connection killed",
];

pub(crate) async fn end_badly(end: &str, tx: &Transaction) -> Result<(), HandlerError> {
    match end {
        "error" => Err("not this time")?,
        "panic" => panic!("on purpose"),
        "deadline" | "record timeout" => tx.batch_execute("SELECT pg_sleep(3600)").await?,
        "swallowed error" => assert!(tx.batch_execute("SELECT 1 / 0").await.is_err()),
        "own connection killed" => {
            let kill = "SELECT pg_terminate_backend(pg_backend_pid())";
            assert!(tx.batch_execute(kill).await.is_err());
        }
        statement => tx.batch_execute(statement).await?,
    }
    Ok(())
}

/// The time of an invocation whose handler or work ends like this.
pub(crate) fn time_for(end: &str) -> Duration {
    Duration::from_secs(if end == "deadline" { 2 } else { 60 })
}

/// Delivers an order twice. The second delivery starts after the first handler's effect. Once the second delivery waits
/// for the first, `meanwhile` runs, and then the first handler succeeds or fails. Returns the failures of both
/// deliveries.
pub(crate) async fn two_at_once(
    orders: &Orders,
    fails: bool,
    meanwhile: impl AsyncFnOnce(i32),
) -> (Vec<String>, Vec<String>) {
    let (reached, goes_on) = (&Arc::new(Notify::new()), &Arc::new(Notify::new()));
    let signals = (Arc::clone(reached), Arc::clone(goes_on));
    let first = orders.consumer(move |order, tx| {
        let (reached, goes_on) = signals.clone();
        async move {
            insert(&order, &tx).await?;
            reached.notify_one();
            goes_on.notified().await;
            match fails {
                true => Err(HandlerError::retry("not this time")),
                false => Ok(()),
            }
        }
    });
    let second = orders.sound();
    let (first, second, ()) = tokio::join!(
        invoke(&first, &["o-1"]),
        async {
            reached.notified().await;
            invoke(&second, &["o-1"]).await
        },
        async {
            meanwhile(until_waiting(&orders.database.client, 1).await[0]).await;
            goes_on.notify_one();
        }
    );
    (first, second)
}
