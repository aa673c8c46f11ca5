{% if effect == "postgres" -%}
//! Tests of the consumer as Lambda calls it, on the PostgreSQL of `TEST_DATABASE_URL`. Each test has its own schema.

use lambda_runtime::{Context, LambdaEvent};
{%- if source != "sqs" %}
use serde_json::json;
{%- endif %}
use sqs_once::store::Timestamp;
use sqs_once::testing::{Event, Record};
use sqs_once_postgres::PostgresStore;
use sqs_once_postgres::deadpool_postgres::tokio_postgres::{Client, NoTls, connect};
use tower_service::Service;

use crate::order::OrderPlaced;
use crate::reserve;
{%- else -%}
//! Tests of the consumer as Lambda runs it, in memory.

{% if effect == "elsewhere" %}use std::time::Duration;

{% endif %}
{%- if source != "sqs" -%}
use serde_json::json;
{% endif -%}
use sqs_once::testing::{Bench, Event, Record};

use crate::order::OrderPlaced;
{%- if effect == "dynamodb" %}
use crate::reserve;
use crate::tables::Tables;
{%- else %}
use crate::ship;
use crate::warehouse::Warehouse;
{%- endif %}
{%- endif %}

fn order(id: &str) -> OrderPlaced {
    OrderPlaced {
        order_id: id.to_owned(),
        customer_id: format!("customer-of-{id}"),
        article: "mug-blue".to_owned(),
        pieces: 2,
    }
}

fn of_pieces(id: &str, pieces: {% if effect == "postgres" %}i64{% else %}u32{% endif %}) -> OrderPlaced {
    OrderPlaced {
        pieces,
        ..order(id)
    }
}

{% if source == "sns" -%}
/// The message as SNS sends it to the queue.
{%- elsif source == "bus" -%}
/// The message as the event bus's subscriber sends it to the queue.
{%- else -%}
/// The message as SQS stores it.
{%- endif %}
fn message(order: &OrderPlaced) -> Record {
{%- if source == "sns" %}
    let notification = json!({
        "Type": "Notification",
        "MessageId": "6513270e-269e-4d37-b2a7-4de452e6b438",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:{{ project_name }}{% if queue == "fifo" %}.fifo{% endif %}",
        "Message": serde_json::to_string(order).unwrap(),
        "Timestamp": "2026-01-01T00:00:00.000Z",
    });
    Record::json(&notification){% if queue == "fifo" %}.fifo(&order.customer_id){% endif %}
{%- elsif source == "bus" %}
    let event = json!({
        "Data": order,
        "Metadata": {},
        "SystemMetadata": { "ContentType": "application/json", "aws:DeliveryType": "LIVE" },
    });
    Record::json(&event){% if queue == "fifo" %}.fifo(&order.customer_id){% endif %}
{%- elsif queue == "fifo" %}
    Record::json(order).fifo(&order.customer_id)
{%- else %}
    Record::json(order)
{%- endif %}
}
{%- if queue == "fifo" %}

/// An order that fails, another order of its customer, and one of another customer.
fn two_groups() -> Event {
    let first = of_pieces("o-1", 0);
    let second = OrderPlaced {
        customer_id: first.customer_id.clone(),
        ..order("o-2")
    };
    Event::new([&first, &second, &order("o-3")].map(message))
}
{%- endif %}

{% if effect == "postgres" -%}
/// The schema of one test, with its tables.
struct Database {
    client: Client,
    url: String,
}

impl Database {
    async fn new(test: &str) -> Self {
        let url = std::env::var("TEST_DATABASE_URL").expect(
            "TEST_DATABASE_URL should be the URL of a PostgreSQL in which the tests may make schemas: see README.md",
        );
        let (client, connection) = connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let schema = format!("test_{test}");
        let migrations = [
            &format!("DROP SCHEMA IF EXISTS {schema} CASCADE"),
            &format!("CREATE SCHEMA {schema}"),
            &format!("SET search_path = {schema}"),
            include_str!("../migrations/1_processed_events.sql"),
            include_str!("../migrations/2_orders.sql"),
        ];
        for migration in migrations {
            client.batch_execute(migration).await.unwrap();
        }
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}options=-c%20search_path%3D{schema}");
        Self { client, url }
    }

    /// Runs the event and returns the message ids that return to the queue.
    async fn run(&self, event: Event) -> Vec<String> {
        let store = PostgresStore::from_url(&self.url).unwrap();
        let mut consumer = reserve::consumer().store(store);
        let mut context = Context::default();
        context.deadline = Timestamp::now().as_millis() + 30_000;
        let event = serde_json::from_str(event.as_json()).unwrap();
        let answer = consumer.call(LambdaEvent::new(event, context)).await;
        let failures = answer.unwrap().batch_item_failures;
        let ids = failures.into_iter().map(|failure| failure.item_identifier);
        ids.collect()
    }

    /// Returns the number of stored orders and of reserved pieces.
    async fn orders_and_pieces(&self) -> (i64, i64) {
        let count = "SELECT (SELECT count(*) FROM orders), (SELECT coalesce(sum(reserved), 0)::bigint FROM stock)";
        let row = self.client.query_one(count, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }
}

#[tokio::test]
async fn an_order_that_comes_twice_is_reserved_once() {
    let database = Database::new("twice").await;
    let order = order("o-1");
    let first = Event::new([message(&order)]);
    let delivered_again = message(&order).receive_count(2);
    let sent_again = message(&order).message_id("another");
    let again = Event::new([delivered_again, sent_again]);

    assert!(database.run(first).await.is_empty());
    assert!(database.run(again).await.is_empty());

    assert_eq!(database.orders_and_pieces().await, (1, 2));
}

#[tokio::test]
async fn an_order_that_can_never_succeed_holds_up_no_other() {
    let database = Database::new("never").await;
    let nothing = of_pieces("o-2", 0);
    let event = Event::new([message(&order("o-1")), message(&nothing)]);

    assert_eq!(database.run(event).await, ["m-2"]);

    assert_eq!(database.orders_and_pieces().await, (1, 2));
}

#[tokio::test]
async fn another_order_under_a_known_key_is_terminal() {
    let database = Database::new("another").await;
    let first = order("o-1");
    let other = of_pieces("o-1", 7);
    let event = Event::new([message(&first)]);
    assert!(database.run(event).await.is_empty());
    let event = Event::new([message(&other)]);
    assert_eq!(database.run(event).await, ["m-1"]);
    assert_eq!(database.orders_and_pieces().await, (1, 2));
}

#[tokio::test]
async fn of_an_order_that_fails_halfway_nothing_is_kept() {
    let database = Database::new("halfway").await;
    // The second statement fails.
    let no_stock = "ALTER TABLE stock ADD CHECK (reserved < 2)";
    database.client.batch_execute(no_stock).await.unwrap();
    let event = Event::new([message(&order("o-1"))]);

    assert_eq!(database.run(event.clone()).await, ["m-1"]);
    assert_eq!(database.orders_and_pieces().await, (0, 0));

    // The key is not completed either, so the order runs once there is room again.
    let more_stock = "ALTER TABLE stock DROP CONSTRAINT stock_reserved_check";
    database.client.batch_execute(more_stock).await.unwrap();
    assert!(database.run(event).await.is_empty());
    assert_eq!(database.orders_and_pieces().await, (1, 2));
}
{%- if queue == "fifo" %}

#[tokio::test]
async fn behind_an_order_that_fails_the_rest_of_its_group_waits() {
    let database = Database::new("group").await;

    assert_eq!(database.run(two_groups()).await, ["m-1", "m-2"]);

    assert_eq!(database.orders_and_pieces().await, (1, 2));
}
{%- endif %}

#[tokio::test]
async fn the_sample_event_is_two_orders_and_one_of_them_again() {
    let database = Database::new("sample").await;
    let sample = Event::from_json(include_str!("../events/orders.json"));
    assert!(database.run(sample).await.is_empty());
    assert_eq!(database.orders_and_pieces().await, (2, 3));
}

#[tokio::test]
async fn of_the_invalid_samples_only_the_first_is_an_order() {
    let database = Database::new("invalid").await;
    let sample = Event::from_json(include_str!("../events/invalid.json"));
    assert_eq!(database.run(sample).await.len(), 2);
    assert_eq!(database.orders_and_pieces().await, (1, 1));
}
{%- else -%}
{% if effect == "dynamodb" -%}
{%- assign bench = "let bench = bench();" -%}
{%- assign effects = "bench.store().writes().len()" -%}
{%- assign of_one = 2 -%}
{%- assign of_two = 4 -%}
fn bench() -> Bench {
    let tables = Tables {
        orders: "orders".to_owned(),
        stock: "stock".to_owned(),
    };
    Bench::new(reserve::handler(tables))
}
{%- else -%}
{%- assign bench = "let (bench, warehouse) = bench();" -%}
{%- assign effects = "shipped(&warehouse).len()" -%}
{%- assign of_one = 1 -%}
{%- assign of_two = 2 -%}
fn bench() -> (Bench, Warehouse) {
    let warehouse = Warehouse::default();
    (Bench::new(ship::handler(warehouse.clone())), warehouse)
}

/// Returns the tokens of all shipments.
fn shipped(warehouse: &Warehouse) -> Vec<String> {
    warehouse.shipped.lock().unwrap().clone()
}
{%- endif %}

#[tokio::test]
async fn an_order_that_comes_twice_is_{% if effect == "dynamodb" %}reserved{% else %}shipped{% endif %}_once() {
    {{ bench }}
    let order = order("o-1");
    let event = Event::new([message(&order)]);
    bench.run(event).await.assert_processed("m-1");

    let delivered_again = message(&order).receive_count(2);
    let sent_again = message(&order).message_id("another");
    bench
        .run(Event::new([delivered_again, sent_again]))
        .await
        .assert_duplicate("m-1")
        .assert_duplicate("another")
        .assert_all_acknowledged();
{% if effect == "dynamodb" %}
    let writes = bench.store().writes();
    assert_eq!(writes.len(), 2);
    assert_eq!(writes[0].put().unwrap().table_name(), "orders");
    assert_eq!(writes[1].update().unwrap().table_name(), "stock");
{%- else %}
    assert_eq!(shipped(&warehouse).len(), 1);
{%- endif %}
}

#[tokio::test]
async fn another_order_under_a_known_key_is_terminal() {
    {{ bench }}
    let first = order("o-1");
    let other = of_pieces("o-1", 7);
    let event = Event::new([message(&first)]);
    bench.run(event).await.assert_processed("m-1");
    let another = message(&other).message_id("another");
    bench
        .run(Event::new([another]))
        .await
        .assert_terminal("another")
        .assert_retried(["another"]);
    assert_eq!({{ effects }}, {{ of_one }});
}

#[tokio::test]
async fn an_order_that_can_never_succeed_holds_up_no_other() {
    {{ bench }}
    let nothing = of_pieces("o-2", 0);
    bench
        .run(Event::new([message(&order("o-1")), message(&nothing)]))
        .await
        .assert_processed("m-1")
        .assert_terminal("m-2")
        .assert_reason("m-2", "the order is for no pieces")
        .assert_retried(["m-2"]);
    assert_eq!({{ effects }}, {{ of_one }});
}
{%- if effect == "elsewhere" %}

#[tokio::test]
async fn a_crash_after_the_shipment_repeats_it_under_the_same_token() {
    let (bench, warehouse) = bench();
    let event = Event::new([message(&order("o-1"))]);
    bench.run_and_crash(&event).await;
    bench.run(&event).await.assert_in_progress("m-1");
    // The lease is the invocation's 30 s plus a margin of 3 s.
    bench.clock().advance(Duration::from_secs(34));
    bench.run(&event).await.assert_processed("m-1");

    let shipped = shipped(&warehouse);
    assert_eq!(shipped.len(), 2);
    assert_eq!(shipped[0], shipped[1]);
}
{%- endif %}
{%- if queue == "fifo" %}

#[tokio::test]
async fn behind_an_order_that_fails_the_rest_of_its_group_waits() {
    {{ bench }}
    bench
        .run(two_groups())
        .await
        .assert_processed("m-3")
        .assert_retried(["m-1", "m-2"]);
    assert_eq!({{ effects }}, {{ of_one }});
}
{%- endif %}

#[tokio::test]
async fn the_sample_event_is_two_orders_and_one_of_them_again() {
    {{ bench }}
    let sample = Event::from_json(include_str!("../events/orders.json"));
    bench.run(sample).await.assert_all_acknowledged();
    assert_eq!({{ effects }}, {{ of_two }});
}

#[tokio::test]
async fn of_the_invalid_samples_only_the_first_is_an_order() {
    {{ bench }}
    let sample = Event::from_json(include_str!("../events/invalid.json"));
    let answer = bench.run(sample).await;
    assert_eq!(answer.retried().len(), 2);
    assert_eq!({{ effects }}, {{ of_one }});
}
{%- endif %}
