//! Decoders and extractors that wait.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sqs_once::body::{AsyncDecode, EventBridge};
use sqs_once::extract::{FromRecord, Message, RecordParts};
use sqs_once::key::MessageAttribute;
use sqs_once::policy::{FifoFailure, MissingKey, PayloadMismatch, RouteBy};
use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Bench, Event, Operation, Record};
use sqs_once::{Batch, Consumer, HandlerError, ResultExt, consumer_with, router};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::no_secrets::watch;
use crate::support::{AtOnce, Notes, Order, SECOND, assert_contains, orders};

/// Waits a second for each payload. The body decides what happens then.
#[derive(Clone, Default)]
struct Slow {
    at_once: AtOnce,
    decoded: Notes<String>,
}

impl AsyncDecode<Order> for Slow {
    async fn decode(&self, body: &str, message: &Message) -> Result<Order, HandlerError> {
        let _counted = self.at_once.enter();
        let id = body.trim_matches('"').to_owned();
        sleep(SECOND).await;
        match &*id {
            "never" => std::future::pending().await,
            "panics" => panic!("with a canary"),
            "later" => return Err("the schema is locked").retry_after(90 * SECOND),
            "broken" => return Err("it has no schema").terminal(),
            "slower" => sleep(SECOND).await,
            "down" => return Err("no answer").unavailable("schemas"),
            _ => {}
        }
        self.decoded.add(message.id().to_owned());
        Ok(Order { id, total: 0 })
    }
}

fn event<'a>(ids: impl IntoIterator<Item = &'a str>) -> Event {
    watch::everywhere();
    Event::new(ids.into_iter().map(|id| Record::json(id).message_id(id)))
}

fn consumer(slow: &Slow, done: &Notes<String>) -> Consumer {
    let done = done.clone();
    consumer_with(slow.clone())
        .key(|order: &Order| order.id.clone())
        .handler(move |order: Order| {
            done.add(order.id);
            async {}
        })
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_payload_comes_after_the_batch_was_stopped_does_not_run() {
    let (slow, done) = <(Slow, Notes<String>)>::default();
    let handled = done.clone();
    let consumer = consumer_with(slow)
        .key(MessageAttribute::new("order"))
        .handler(move |order: Order| {
            let done = handled.clone();
            async move {
                done.add(order.id.clone());
                order.obey().await
            }
        })
        .missing_key(MissingKey::ProcessUnprotected)
        .fifo(FifoFailure::ReturnBatch);
    let events = Event::new([
        Record::json("bad").fifo("a").attribute("order", "bad"),
        Record::json("slower").fifo("b"),
    ]);
    let answer = Bench::new(consumer).run(events).await;
    answer.assert_retried(["m-1", "m-2"]);
    assert_eq!(done.take(), ["bad"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cant_be_decoded_ends_alone_as_its_error_says() {
    let (slow, done) = Default::default();
    let bench = Bench::new(consumer(&slow, &done).record_timeout(5 * SECOND));
    let answer = bench
        .run(event(["o-1", "later", "broken", "panics", "never", "o-2"]))
        .await;
    answer.assert_processed("o-1").assert_processed("o-2");
    answer
        .assert_failed("later")
        .assert_reason("later", "the schema is locked");
    assert_eq!(answer.delay("later"), Some(90 * SECOND));
    answer
        .assert_terminal("broken")
        .assert_reason("broken", "it has no schema");
    answer
        .assert_terminal("panics")
        .assert_reason("panics", "panicked");
    answer
        .assert_failed("never")
        .assert_reason("never", "longer than 5s");
    // Nothing was claimed for a record that was not decoded.
    assert_eq!(bench.item("later").await.map(|item| item.id), None);
}

#[tokio::test(start_paused = true)]
async fn decoding_runs_before_the_claim_and_for_duplicates_too() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let bench = Bench::new(consumer(&slow, &done));
    let requests = bench.store().clone();
    let twice = Event::new(["m-1", "m-2"].map(|id| Record::json("o-1").message_id(id)));
    bench.run(&twice).await.assert_all_acknowledged();
    bench
        .run(&twice)
        .await
        .assert_duplicate("m-1")
        .assert_duplicate("m-2");
    assert_eq!((slow.decoded.take().len(), done.take().len()), (4, 1));
    assert_eq!(requests.requests(), 3);
}

#[tokio::test(start_paused = true)]
async fn at_most_the_concurrency_is_decoded_or_waits_for_a_handler() {
    let slow = Slow::default();
    let (held, most) = (AtOnce::default(), Notes::default());
    let (decoder, notes) = (slow.clone(), most.clone());
    let consumer = consumer_with(slow.clone())
        .key(|order: &Order| order.id.clone())
        .handler(move |_: Order| {
            // The payloads that were decoded, and not handled yet.
            notes.add(decoder.decoded.len());
            let held = held.clone();
            async move {
                let _counted = held.enter();
                sleep(10 * SECOND).await;
            }
        });
    let ids: Vec<_> = (0..100).map(|at| format!("o-{at}")).collect();
    let bench = Bench::new(consumer.concurrency(4)).timeout(Duration::from_secs(900));
    bench
        .run(event(ids.iter().map(String::as_str)))
        .await
        .assert_all_acknowledged();
    assert_eq!(slow.at_once.most(), 4);
    // The n-th handler starts when at most 2 * 4 payloads beyond the handled ones are in memory.
    for (handled, decoded) in most.take().into_iter().enumerate() {
        assert!(
            decoded <= handled + 8,
            "{decoded} were decoded before {handled} were handled"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn records_that_are_decoded_together_share_a_request() {
    let (slow, done) = Default::default();
    let bench = Bench::new(consumer(&slow, &done).concurrency(50));
    let ids: Vec<_> = (0..50).map(|at| format!("o-{at}")).collect();
    bench
        .run(event(ids.iter().map(String::as_str)))
        .await
        .assert_all_acknowledged();
    assert_eq!(bench.store().requests(), 4);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_records_that_are_not_decoded_return_without_a_claim() {
    let (slow, done) = Default::default();
    let bench = Bench::new(consumer(&slow, &done));
    let began = Instant::now();
    let answer = bench.run(event(["o-1", "never", "never-2"])).await;
    answer.assert_processed("o-1").assert_retried(["never"]);
    answer.assert_reason("never", "before its payload was there");
    assert!(began.elapsed() < 30 * SECOND);
    assert_eq!(done.take(), ["o-1", "never-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_fifo_group_waits_for_its_record_to_be_decoded_and_stops_with_it() {
    let (slow, done) = Default::default();
    let bench = Bench::new(consumer(&slow, &done));
    let records = [
        ("a", "o-1"),
        ("a", "broken"),
        ("a", "o-2"),
        ("b", "o-3"),
        ("b", "o-4"),
    ];
    let records = records.map(|(group, id)| Record::json(id).message_id(id).fifo(group));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_retried(["broken", "o-2"]);
    let done = done.take();
    let of_b: Vec<_> = done.iter().filter(|id| *id != "o-1").collect();
    assert_eq!(of_b, ["o-3", "o-4"]);
}

#[tokio::test(start_paused = true)]
async fn when_completions_cant_be_recorded_nothing_more_is_claimed() {
    let (slow, done) = Default::default();
    let bench = Bench::new(consumer(&slow, &done).concurrency(1));
    bench
        .store()
        .fail(Operation::Complete, StoreErrorKind::AccessDenied, 1);
    let answer = bench.run(event(["o-1", "o-2", "o-3"])).await;
    assert_eq!(answer.retried().len(), 3);
    assert!(done.take().len() < 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_waits_until_all_are_decoded_or_its_time_begins() {
    let slow = Slow::default();
    let calls = Notes::default();
    let notes = calls.clone();
    let consumer = consumer_with(slow.clone())
        .key(|order: &Order| order.id.clone())
        .batch_handler(move |orders: Batch<Order>| {
            notes.add(
                orders
                    .payloads()
                    .map(|order| order.id.clone())
                    .collect::<Vec<_>>(),
            );
            async move { orders.all_succeeded() }
        });
    let bench = Bench::new(consumer.concurrency(2));
    let answer = bench.run(event(["o-1", "o-2", "o-3", "o-4", "o-5"])).await;
    answer.assert_all_acknowledged();
    assert_eq!(calls.take().concat().len(), 5);
    let answer = bench.run(event(["o-6", "never"])).await;
    answer.assert_processed("o-6").assert_retried(["never"]);
    assert_eq!(calls.take(), [["o-6"]]);
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_reports_a_dependency_opens_its_breaker() {
    let (slow, done) = Default::default();
    let consumer = consumer(&slow, &done)
        .depends_on("schemas")
        .max_receive_count(5);
    let bench = Bench::new(consumer.concurrency(1));
    let down: Vec<_> = (0..6)
        .map(|at| Record::json("down").message_id(format!("m-{at}")))
        .collect();
    let answer = bench.run(Event::new(down)).await;
    assert_eq!(answer.retried().len(), 6);
    answer.assert_reason("m-5", "unavailable: schemas: its breaker is open");
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_waits_is_opened_first_and_compared_by_its_body() {
    let (slow, done) = Default::default();
    let consumer = consumer(&slow, &done).envelope(EventBridge);
    let bench = Bench::new(consumer.payload_mismatch(PayloadMismatch::Reject));
    let event = |id: &str, detail: &str| {
        let event = json!({
            "id": id, "source": "shop", "detail-type": "OrderPlaced", "detail": detail,
            "account": "1", "time": "2026-01-01T00:00:00Z", "region": "eu-central-1",
            "resources": [], "version": "0",
        });
        Event::new([Record::json(&event)])
    };
    bench
        .run(event("e-1", "o-1"))
        .await
        .assert_all_acknowledged();
    bench.run(event("e-2", "o-1")).await.assert_duplicate("m-1");
    assert_eq!(done.take(), ["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_waits_does_not_hold_up_the_others() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let first = Arc::new(Notify::new());
    let notify = Arc::clone(&first);
    let quick = orders().handler(move |_: Order| {
        notify.notify_one();
        async {}
    });
    let routes = router(RouteBy::attribute("type"))
        .route("slow", consumer(&slow, &done).namespace("slow"))
        .route("quick", quick.namespace("quick"));
    let bench = Bench::new(routes);
    let event = Event::new([
        Record::json("o-1").attribute("type", "slow"),
        Record::json(&json!({ "id": "o-1" })).attribute("type", "quick"),
    ]);
    let began = Instant::now();
    let (answer, quick_after) = tokio::join!(bench.run(event), async {
        first.notified().await;
        began.elapsed()
    });
    answer.assert_all_acknowledged();
    assert!(quick_after < SECOND, "{quick_after:?}");
    assert_contains!(done.take().join(" "), "o-1");
}

/// The settings of a tenant, which take a second to load. The tenant's name decides what happens then.
struct Settings(String);

impl<S: Sync> FromRecord<S> for Settings {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        sleep(SECOND).await;
        match parts.message().attribute("tenant").unwrap_or_default() {
            "never" => std::future::pending().await,
            "panics" => panic!("with a reason"),
            "later" => Err("the settings are locked").retry_after(90 * SECOND),
            "broken" => Err("it has no settings").terminal(),
            tenant => Ok(Self(tenant.to_owned())),
        }
    }
}

fn tenants<'a>(tenants: impl IntoIterator<Item = &'a str>) -> Event {
    let order = |tenant| Record::json(&json!({ "id": tenant })).attribute("tenant", tenant);
    let orders = tenants.into_iter();
    Event::new(orders.map(|tenant| order(tenant).message_id(tenant)))
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_extractor_fails_ends_alone_as_its_error_says() {
    let done = Notes::default();
    let notes = done.clone();
    let consumer = orders().handler(move |_: Order, Settings(tenant): Settings| {
        notes.add(tenant);
        async {}
    });
    let bench = Bench::new(consumer.record_timeout(5 * SECOND));
    let event = tenants(["a", "later", "broken", "panics", "never", "b"]);
    let answer = bench.run(&event).await;
    answer.assert_processed("a").assert_processed("b");
    answer
        .assert_failed("later")
        .assert_reason("later", "the settings are locked");
    assert_eq!(answer.delay("later"), Some(90 * SECOND));
    answer
        .assert_terminal("broken")
        .assert_reason("broken", "it has no settings");
    answer
        .assert_failed("panics")
        .assert_reason("panics", "panicked");
    answer
        .assert_failed("never")
        .assert_reason("never", "longer than 5s");
    assert_eq!(done.take(), ["a", "b"]);

    // It runs after the claim, so not for duplicates.
    let begun = Instant::now();
    let again = bench.run(tenants(["a", "b"])).await;
    again.assert_duplicate("a").assert_duplicate("b");
    assert!(begun.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_extractor_that_waits_too_long_is_cancelled_at_the_deadline() {
    let consumer = orders().handler(async |_: Order, _: Settings| {});
    let bench = Bench::new(consumer).timeout(30 * SECOND);
    let answer = bench.run(tenants(["a", "never"])).await;
    answer.assert_processed("a").assert_failed("never");
    answer.assert_reason("never", "cancelled at the deadline");
}
