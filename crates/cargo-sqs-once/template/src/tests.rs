//! Tests of the consumer as Lambda runs it, in memory.

{% if effect == "elsewhere" %}use std::time::Duration;

{% endif %}
{%- if source == "sns" -%}
use serde_json::json;
{% endif -%}
use sqs_once::testing::{Bench, Event, Record};

use crate::consumer;
use crate::order::OrderPlaced;
{%- if effect == "dynamodb" %}
use crate::tables::Tables;
{%- else %}
use crate::warehouse::Warehouse;
{%- endif %}

fn order(id: &str) -> OrderPlaced {
    OrderPlaced {
        order_id: id.to_owned(),
        customer_id: format!("customer-of-{id}"),
        article: "mug-blue".to_owned(),
        pieces: 2,
    }
}

{% if source == "sns" -%}
/// The message as SNS sends it to the queue.
{%- else -%}
/// The message as SQS stores it.
{%- endif %}
fn message(order: &OrderPlaced) -> Record {
{%- if source == "sns" %}
    let notification = json!({
        "Type": "Notification",
        "MessageId": "6513270e-269e-4d37-b2a7-4de452e6b438",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:orders",
        "Message": serde_json::to_string(order).unwrap(),
        "Timestamp": "2026-01-01T00:00:00.000Z",
    });
    Record::json(&notification){% if queue == "fifo" %}.fifo(&order.customer_id){% endif %}
{%- elsif queue == "fifo" %}
    Record::json(order).fifo(&order.customer_id)
{%- else %}
    Record::json(order)
{%- endif %}
}

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
    Bench::new(consumer(tables))
}
{%- else -%}
{%- assign bench = "let (bench, warehouse) = bench();" -%}
{%- assign effects = "shipped(&warehouse).len()" -%}
{%- assign of_one = 1 -%}
{%- assign of_two = 2 -%}
fn bench() -> (Bench, Warehouse) {
    let warehouse = Warehouse::default();
    (Bench::new(consumer(warehouse.clone())), warehouse)
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
async fn another_order_under_a_known_key_fails() {
    {{ bench }}
    let first = order("o-1");
    let other = OrderPlaced {
        pieces: 7,
        ..order("o-1")
    };
    let event = Event::new([message(&first)]);
    bench.run(event).await.assert_processed("m-1");
    let another = message(&other).message_id("another");
    bench
        .run(Event::new([another]))
        .await
        .assert_failed("another")
        .assert_retried(["another"]);
    assert_eq!({{ effects }}, {{ of_one }});
}

#[tokio::test]
async fn an_order_that_can_never_succeed_holds_up_no_other() {
    {{ bench }}
    let nothing = OrderPlaced {
        pieces: 0,
        ..order("o-2")
    };
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
    let first = OrderPlaced {
        pieces: 0,
        ..order("o-1")
    };
    let second = OrderPlaced {
        customer_id: first.customer_id.clone(),
        ..order("o-2")
    };
    let another_customers = order("o-3");
    let orders = [&first, &second, &another_customers];
    bench
        .run(Event::new(orders.map(message)))
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
