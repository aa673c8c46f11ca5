//! Runs consumers that the attribute creates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use sqs_once::key::MessageKey;
use sqs_once::store::Status;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Batch, BatchOutcome, Consumer, State, batch_handler, handler};

const DAY: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: Option<String>,
    id: String,
}

/// The arguments that the handlers record.
type Notes = Arc<Mutex<Vec<String>>>;

#[handler(key = order.id, mode = record_after, namespace = "macros")]
async fn recorded_after(order: OrderPlaced) {
    drop(order);
}

#[tokio::test(start_paused = true)]
async fn with_record_after_the_key_is_written_when_the_work_is_done_and_kept_as_long_as_given() {
    let bench = Bench::new(recorded_after::handler().retention(2 * DAY));
    let event = Event::new([&json!({ "id": "1" })]);
    bench.run_and_crash(&event).await;
    assert_eq!(bench.item("1").await, None);
    bench.run(&event).await.assert_all_acknowledged();
    let item = bench.item("1").await.unwrap();
    assert_eq!(item.status, Status::Completed);
    assert_eq!(item.expiration, Some(bench.clock().now() + 2 * DAY));
}

#[handler(key = (id, MessageKey::attribute("shop")), namespace = "macros")]
async fn in_a_shop(OrderPlaced { id, .. }: OrderPlaced, State(notes): State<Notes>) {
    notes.lock().unwrap().push(id);
}

#[batch_handler(key = (order.id, MessageKey::attribute("shop")), namespace = "macros")]
async fn batch_in_a_shop(orders: Batch<OrderPlaced>, State(notes): State<Notes>) -> BatchOutcome {
    orders
        .payloads()
        .for_each(|order| notes.lock().unwrap().push(order.id.clone()));
    orders.all_succeeded()
}

#[tokio::test(start_paused = true)]
async fn a_key_may_be_of_the_payload_and_of_message_attributes() {
    let consumers: [fn(Notes) -> Consumer; 2] = [in_a_shop::consumer, batch_in_a_shop::consumer];
    for consumer in consumers {
        let notes = Notes::default();
        let bench = Bench::new(consumer(notes.clone()));
        let order = |shop: &str| {
            let record = Record::json(&json!({ "tenant": "a", "id": "1" }));
            record.message_id(shop).attribute("shop", shop)
        };
        let both = Event::new(["north", "south"].map(order));
        bench.run(both).await;
        let again = bench.run(Event::new([order("north")])).await;
        again.assert_duplicate("north");
        assert_eq!(*notes.lock().unwrap(), ["1", "1"]);
        // The key's item is that of the same parts, wherever they come from.
        assert!(bench.item(&("1", "south")).await.is_some());
    }
}

#[batch_handler(key = (order.tenant, order.id), fingerprint = |order| order.id, namespace = "macros")]
async fn together(orders: Batch<OrderPlaced>, State(notes): State<Notes>) -> BatchOutcome {
    let ids: Vec<_> = orders.payloads().map(|order| order.id.as_str()).collect();
    notes.lock().unwrap().push(ids.join(" "));
    orders.all_succeeded()
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_is_called_once_with_every_event_that_its_key_tells_apart() {
    let notes = Notes::default();
    let bench = Bench::new(together::consumer(notes.clone()));
    let event = Event::new(&[
        json!({ "tenant": "a", "id": "1" }),
        json!({ "tenant": "b", "id": "1" }),
        json!({ "tenant": "a", "id": "1", "other": true }),
        json!({ "tenant": "a", "id": "2" }),
    ]);
    for _ in 0..2 {
        bench.run(&event).await.assert_all_acknowledged();
    }
    assert_eq!(*notes.lock().unwrap(), ["1 1 2"]);
    let item = bench.item(&("a", "2")).await.unwrap();
    assert_eq!(item.status, Status::Completed);
}
