//! Runs consumers that the attribute creates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lambda_runtime::{Context, LambdaEvent, Service};
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::extract::Key;
use sqs_once::key::Namespace;
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::Status;
use sqs_once::testing::TestSettings;
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{
    Batch, BatchOutcome, BusinessKey, Consumer, MemoryStore, State, batch_handler, handler,
};

const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);
const DEADLINE: Timestamp = Timestamp::from_secs(1_790_000_030);
const DAY: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: Option<String>,
    id: String,
}

/// Where the handlers record their arguments.
#[derive(Clone, Default)]
struct App {
    store: MemoryStore,
    notes: Arc<Mutex<Vec<String>>>,
}

impl App {
    fn note(&self, note: String) {
        self.notes.lock().unwrap().push(note);
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// Sends the bodies in one batch and returns the indexes of the batch item failures.
    async fn invoke(
        &self,
        consumer: Consumer,
        bodies: impl IntoIterator<Item = Value>,
    ) -> Vec<String> {
        let records = bodies
            .into_iter()
            .enumerate()
            .map(|(at, body)| json!({ "messageId": at.to_string(), "body": body.to_string() }));
        let event = json!({ "Records": records.collect::<Vec<_>>() });
        let mut context = Context::default();
        context.deadline = DEADLINE.as_millis();
        let mut consumer = consumer.store(self.store.clone()).clock(FixedClock);
        let event = LambdaEvent::new(serde_json::from_value(event).unwrap(), context);
        let response = consumer.call(event).await.unwrap();
        let failures = response.batch_item_failures.into_iter();
        failures.map(|failure| failure.item_identifier).collect()
    }
}

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW
    }
}

#[handler(key = order.id, namespace = "macros")]
async fn by_id(order: OrderPlaced, State(app): State<App>) {
    app.note(format!("{:?} {}", order.tenant, order.id));
}

#[tokio::test]
async fn a_key_over_the_payload_tells_events_apart_by_its_value_alone() {
    let app = App::default();
    let bodies = [
        json!({ "tenant": "a", "id": "1" }),
        json!({ "tenant": "b", "id": "1" }),
        json!({ "tenant": "a", "id": "2" }),
    ];
    app.invoke(by_id::consumer().state(app.clone()), bodies)
        .await;
    assert_eq!(app.notes(), ["Some(\"a\") 1", "Some(\"a\") 2"]);
}

#[handler(key = (order.tenant, order.id), namespace = "macros")]
async fn by_tenant_and_id(mut order: OrderPlaced, State(app): State<App>) {
    app.note(format!("{} {}", order.tenant.take().unwrap(), order.id));
}

#[tokio::test]
async fn a_composed_key_tells_events_apart_by_all_its_parts() {
    let app = App::default();
    let bodies = [
        json!({ "tenant": "a", "id": "bc" }),
        json!({ "tenant": "ab", "id": "c" }),
        json!({ "tenant": "a", "id": "bc" }),
    ];
    let failed = app
        .invoke(by_tenant_and_id::consumer().state(app.clone()), bodies)
        .await;
    assert!(failed.is_empty());
    assert_eq!(app.notes(), ["a bc", "ab c"]);
}

#[handler(key = tenant, namespace = "macros")]
async fn by_tenant(OrderPlaced { id, tenant }: OrderPlaced, State(app): State<App>) {
    app.note(format!("{tenant:?} {id}"));
}

#[tokio::test]
async fn a_record_without_its_key_fails_alone_and_is_not_handled() {
    let app = App::default();
    let bodies = [
        json!({ "id": "1" }),
        json!({ "tenant": "a", "id": "2" }),
        json!({ "tenant": " ", "id": "3" }),
    ];
    let failed = app
        .invoke(by_tenant::consumer().state(app.clone()), bodies)
        .await;
    assert_eq!(failed, ["0", "2"]);
    assert_eq!(app.notes(), ["Some(\"a\") 2"]);
}

#[handler(key = order.id, namespace = "payments")]
async fn named(order: OrderPlaced, key: Key, State(app): State<App>) {
    drop(order);
    app.note(key.item_id().to_string());
}

#[tokio::test]
async fn the_namespace_is_the_attributes_unless_code_sets_another() {
    let app = App::default();
    let consumer = named::consumer().state(app.clone());
    app.invoke(consumer, [json!({ "id": "1" })]).await;
    let consumer = named::consumer().state(app.clone()).namespace("by-hand");
    app.invoke(consumer, [json!({ "id": "1" })]).await;

    let notes = app.notes();
    let namespaces = notes.iter().filter_map(|id| id.split('#').next());
    let expected = ["payments", "by-hand"];
    assert!(namespaces.eq(expected), "{notes:?}");
}

#[handler(key = order.id, mode = record_after, namespace = "macros")]
async fn recorded_after(order: OrderPlaced, key: Key, State(app): State<App>) {
    drop(order);
    assert_eq!(app.store.get(key.item_id()), None);
    app.note(key.item_id().to_string());
}

#[tokio::test]
async fn with_record_after_the_key_is_written_when_the_work_is_done_and_kept_as_long_as_given() {
    let app = App::default();
    let consumer = recorded_after::consumer().state(app.clone());
    let consumer = consumer.retention(2 * DAY);
    let failed = app.invoke(consumer, [json!({ "id": "1" })]).await;
    assert!(failed.is_empty());
    let id = sqs_once::key::ItemId::from_stored(app.notes().remove(0));
    let item = app.store.get(&id).unwrap();
    assert_eq!(item.status, Status::Completed);
    assert_eq!(item.expiration, Some(NOW + 2 * DAY));
}

#[handler(key = order.tenant, fingerprint = order.id, namespace = "macros")]
async fn compared(order: OrderPlaced, State(app): State<App>) {
    app.note(order.id);
}

#[tokio::test]
async fn a_fingerprint_over_the_payload_decides_which_messages_differ() {
    let app = App::default();
    let bodies = [
        json!({ "tenant": "a", "id": "1", "sent_at": 1 }),
        json!({ "tenant": "a", "id": "1", "sent_at": 2 }),
        json!({ "tenant": "a", "id": "2", "sent_at": 1 }),
    ];
    let consumer = compared::consumer().state(app.clone());
    let consumer = consumer.payload_mismatch(PayloadMismatch::Reject);
    let failed = app.invoke(consumer, bodies).await;
    assert_eq!(failed, ["2"]);
    assert_eq!(app.notes(), ["1"]);
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
async fn ship(shipment: Shipment, State(app): State<App>) {
    app.note(shipment.note);
}

#[tokio::test]
async fn a_payload_that_derives_its_key_is_told_apart_by_its_key_fields() {
    let app = App::default();
    let shipment = |order: u64, parcel: Option<&str>, note: &str| json!({ "order": order, "parcel": parcel, "note": note });
    let bodies = [
        shipment(1, Some("a"), "first"),
        shipment(1, Some("a"), "again"),
        shipment(1, Some("b"), "other parcel"),
        shipment(2, Some("a"), "other order"),
        shipment(2, None, "no parcel"),
    ];
    let failed = app
        .invoke(ship::consumer().state(app.clone()), bodies)
        .await;
    assert_eq!(failed, ["4"]);
    assert_eq!(app.notes(), ["first", "other parcel", "other order"]);
}

#[batch_handler(key = (order.tenant, order.id), fingerprint = |order| order.id, namespace = "macros")]
async fn together(orders: Batch<OrderPlaced>, State(app): State<App>) -> BatchOutcome {
    let ids: Vec<_> = orders.payloads().map(|order| order.id.as_str()).collect();
    app.note(ids.join(" "));
    orders.all_succeeded()
}

#[tokio::test]
async fn a_batch_handler_is_called_once_with_every_event_that_its_key_tells_apart() {
    let app = App::default();
    let bodies = [
        json!({ "tenant": "a", "id": "1" }),
        json!({ "tenant": "b", "id": "1" }),
        json!({ "tenant": "a", "id": "1", "other": true }),
        json!({ "tenant": "a", "id": "2" }),
    ];
    for _ in 0..2 {
        let consumer = together::consumer().state(app.clone());
        let failed = app.invoke(consumer, bodies.clone()).await;
        assert!(failed.is_empty());
    }
    assert_eq!(app.notes(), ["1 1 2"]);
    let namespace = Namespace::new("macros").unwrap();
    let key = BusinessKey::new(&("a", "2")).unwrap();
    let item = app.store.get(&namespace.item_id(&key)).unwrap();
    assert_eq!(item.status, Status::Completed);
}
