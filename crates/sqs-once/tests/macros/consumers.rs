//! Runs consumers that the attribute creates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::consumer::Runnable;
use sqs_once::key::{ItemId, MessageKey};
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::Status;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Batch, BatchOutcome, BusinessKey, Consumer, State, batch_handler, handler};

const DAY: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: Option<String>,
    id: String,
}

/// The arguments that the handlers record.
type Notes = Arc<Mutex<Vec<String>>>;

/// Sends the bodies in one batch to a handler with its notes. Returns the notes and the message IDs of the batch item failures.
async fn run<R: Runnable, const N: usize>(
    with: impl FnOnce(Notes) -> R,
    bodies: [Value; N],
) -> (Vec<String>, Vec<String>) {
    let notes = Notes::default();
    let bench = Bench::new(with(notes.clone()));
    let answer = bench.run(Event::new(&bodies)).await;
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    (notes, answer.retried().to_vec())
}

#[handler(key = tenant, namespace = "macros")]
async fn by_tenant(OrderPlaced { id, tenant }: OrderPlaced, State(notes): State<Notes>) {
    notes.lock().unwrap().push(format!("{tenant:?} {id}"));
}

#[tokio::test(start_paused = true)]
async fn a_record_without_its_key_fails_alone_and_is_not_handled() {
    let bodies = [
        json!({ "id": "1" }),
        json!({ "tenant": "a", "id": "2" }),
        json!({ "tenant": " ", "id": "3" }),
    ];
    let (notes, failed) = run(by_tenant::consumer, bodies).await;
    assert_eq!(failed, ["m-1", "m-3"]);
    assert_eq!(notes, ["Some(\"a\") 2"]);
}

#[handler(key = order.id, namespace = "payments")]
async fn named(order: OrderPlaced, item: ItemId, State(notes): State<Notes>) {
    drop(order);
    notes.lock().unwrap().push(item.to_string());
}

#[tokio::test(start_paused = true)]
async fn the_namespace_is_the_attributes_unless_code_sets_another() {
    let by_hand = |notes| named::handler(notes).namespace("by-hand");
    for (handler, namespace) in [
        (named::handler as fn(Notes) -> _, "payments#"),
        (by_hand, "by-hand#"),
    ] {
        let (notes, _) = run(handler, [json!({ "id": "1" })]).await;
        assert!(notes[0].starts_with(namespace), "{notes:?}");
    }
}

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

#[handler(key = order.tenant, fingerprint = order.id, namespace = "macros")]
async fn compared(order: OrderPlaced, State(notes): State<Notes>) {
    notes.lock().unwrap().push(order.id);
}

#[tokio::test(start_paused = true)]
async fn a_fingerprint_over_the_payload_decides_which_messages_differ() {
    let bodies = [
        json!({ "tenant": "a", "id": "1", "sent_at": 1 }),
        json!({ "tenant": "a", "id": "1", "sent_at": 2 }),
        json!({ "tenant": "a", "id": "2", "sent_at": 1 }),
    ];
    let strict = |notes| compared::handler(notes).payload_mismatch(PayloadMismatch::Retry);
    let (notes, failed) = run(strict, bodies).await;
    assert_eq!(failed, ["m-3"]);
    assert_eq!(notes, ["1"]);
}

/// A payload as its own key.
#[derive(Deserialize, BusinessKey)]
struct Shipment {
    #[key]
    order: u64,
    #[key]
    parcel: Option<String>,
    note: String,
}

#[handler(key = shipment, namespace = "macros")]
async fn ship(shipment: Shipment, State(notes): State<Notes>) {
    notes.lock().unwrap().push(shipment.note);
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_derives_its_key_is_told_apart_by_its_key_fields() {
    let shipment = |order: u64, parcel: Option<&str>, note: &str| json!({ "order": order, "parcel": parcel, "note": note });
    let bodies = [
        shipment(1, Some("a"), "first"),
        shipment(1, Some("a"), "first"),
        shipment(1, Some("b"), "other parcel"),
        shipment(2, Some("a"), "other order"),
        shipment(2, None, "no parcel"),
    ];
    let (notes, failed) = run(ship::consumer, bodies).await;
    assert_eq!(failed, ["m-5"]);
    assert_eq!(notes, ["first", "other parcel", "other order"]);
}

#[handler(key = (order.id, MessageKey::attribute("shop")), namespace = "macros")]
async fn in_a_shop(order: OrderPlaced, State(notes): State<Notes>) {
    notes.lock().unwrap().push(order.id);
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
