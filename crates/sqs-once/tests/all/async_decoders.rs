//! Decoders and extractors that wait.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;
use sqs_once::body::{AsyncDecode, EventBridge, Text};
use sqs_once::consumer::Keyed;
use sqs_once::extract::{FromRecord, Message, RecordParts};
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::StoreErrorKind;
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Bench, Event, Operation, Record};
use sqs_once::{Batch, Consumer, Handler, HandlerError, ResultExt, Router};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::no_secrets::watch;
use crate::support::envelope_bench::event_bridge;
use crate::support::{AtOnce, Notes, Order, SECOND, assert_contains, ids, keys, one, orders};

/// Takes a second, and then ends as the word requests.
async fn end_as(word: &str) -> Result<(), HandlerError> {
    sleep(SECOND).await;
    match word {
        "never" => std::future::pending().await,
        "panics" => panic!("with a reason"),
        "later" => Err("it is locked").retry_after(90 * SECOND),
        "broken" => Err("it has no schema").terminal(),
        "down" => Err("no answer").unavailable("schemas"),
        "slower" => sleep(SECOND).map(Ok).await,
        _ => Ok(()),
    }
}

/// A decoder that ends as the body requests.
#[derive(Clone, Default)]
struct Slow {
    at_once: AtOnce,
    decoded: Notes<String>,
}

impl AsyncDecode<Order> for Slow {
    async fn decode(&self, body: &str, message: &Message) -> Result<Order, HandlerError> {
        let _counted = self.at_once.enter();
        let id = body.trim_matches('"').to_owned();
        // Its message is not shown, since it may quote the body.
        assert_ne!(id, "panics", "with a canary");
        end_as(&id).await?;
        self.decoded.add(message.id().to_owned());
        Ok(Order { id, total: 0 })
    }
}

/// An extractor that ends as the body requests.
struct Extracted;

impl<S: Sync> FromRecord<S> for Extracted {
    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        end_as(parts.message().id()).await?;
        Ok(Self)
    }
}

fn event(ids: impl IntoIterator<Item: AsRef<str>>) -> Event {
    watch::everywhere();
    let record = |id: &str| Record::json(id).message_id(id);
    Event::new(ids.into_iter().map(|id| record(id.as_ref())))
}

type Id = fn(&Order) -> String;

/// Starts a handler of orders, which this decoder decodes, by their ID.
fn decoding(slow: &Slow) -> Keyed<Order, Id> {
    let id: Id = |order| order.id.clone();
    Handler::decode(slow.clone()).key(id)
}

fn handler(slow: &Slow, done: &Notes<String>) -> Handler {
    decoding(slow).call(done.clone().of(|order: Order| order.id))
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_decoder_or_extractor_fails_ends_alone_as_its_error_says() {
    let (done, notes) = Notes::pair();
    let text = Handler::decode(Text).key(|id: &String| id.clone());
    let noting = notes.of_both(|id: String, _: Extracted| id.trim_matches('"').to_owned());
    let extracting = text.call(noting);
    let decoding = handler(&Slow::default(), &done);
    for (handler, panicked) in [(decoding, Outcome::Terminal), (extracting, Outcome::Failed)] {
        let bench = Bench::new(handler.attempt_timeout(5 * SECOND));
        let event = event(["a", "later", "broken", "panics", "never", "b"]);
        let answer = bench.run(&event).await;
        answer.assert_processed("a").assert_processed("b");
        for (id, outcome, reason) in [
            ("later", Outcome::Failed, "it is locked"),
            ("broken", Outcome::Terminal, "it has no schema"),
            ("panics", panicked, "panicked"),
            ("never", Outcome::Failed, "longer than 5s"),
        ] {
            assert_eq!(answer.outcome(id), outcome);
            answer.assert_reason(id, reason);
        }
        assert_eq!(answer.delay("later"), Some(90 * SECOND));
        assert_eq!(done.take(), ["a", "b"]);
        // Nothing was claimed for a record that was not decoded.
        assert_eq!(bench.item("later").await.map(|item| item.id), None);
    }
}

#[tokio::test(start_paused = true)]
async fn decoders_run_before_the_claim_and_for_duplicates_too_and_extractors_do_not() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let bench = Bench::new(handler(&slow, &done));
    let twice = Event::new(["m-1", "m-2"].map(|id| Record::json("o-1").message_id(id)));
    bench.run(&twice).await.assert_all_acknowledged();
    let answer = bench.run(&twice).await;
    answer.assert_duplicate("m-1").assert_duplicate("m-2");
    assert_eq!((slow.decoded.take().len(), done.take().len()), (4, 1));
    assert_eq!(bench.store().requests(), 3);

    let extracting = orders().call(async |_: Order, _: Extracted| {});
    let bench = Bench::new(extracting);
    bench.run(one("a")).await.assert_processed("m-1");
    let begun = Instant::now();
    bench.run(one("a")).await.assert_duplicate("m-1");
    assert!(begun.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn at_most_the_concurrency_is_decoded_or_waits_for_a_handler() {
    let (slow, most) = <(Slow, Notes<usize>)>::default();
    let (decoded, notes) = (slow.decoded.clone(), most.clone());
    let handler = decoding(&slow).call(move |_: Order| {
        // The payloads that were decoded, and not handled yet.
        notes.add(decoded.len());
        sleep(10 * SECOND)
    });
    let bench = Bench::new(Consumer::new(handler).concurrency(4)).timeout(900 * SECOND);
    let answer = bench.run(event(keys(100))).await;
    answer.assert_all_acknowledged();
    assert_eq!(slow.at_once.most(), 4);
    // The n-th handler starts when at most 2 * 4 payloads beyond the handled ones are in memory.
    for (handled, decoded) in most.take().into_iter().enumerate() {
        assert!(decoded <= handled + 8, "{decoded} of {handled}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_that_are_decoded_together_share_a_request() {
    let (slow, done) = Default::default();
    let bench = Bench::new(Consumer::new(handler(&slow, &done)).concurrency(50));
    bench.run(event(keys(50))).await.assert_all_acknowledged();
    assert_eq!(bench.store().requests(), 4);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_records_that_are_not_decoded_return_without_a_claim() {
    let (slow, done) = Default::default();
    let bench = Bench::new(handler(&slow, &done));
    let began = Instant::now();
    let answer = bench.run(event(["o-1", "never", "never-2"])).await;
    answer.assert_processed("o-1").assert_retried(["never"]);
    answer.assert_reason("never", "before its payload was there");
    assert!(began.elapsed() < 30 * SECOND);
    assert_eq!(done.take(), ["o-1", "never-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_fifo_group_waits_for_its_record_to_be_decoded_and_stops_with_it() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let bench = Bench::new(handler(&slow, &done));
    let records = ["a o-1", "a broken", "a o-2", "b o-3", "b o-4"].map(|record| {
        let (group, id) = record.split_once(' ').unwrap();
        Record::json(id).message_id(id).fifo(group)
    });
    let answer = bench.run(Event::new(records)).await;
    answer.assert_retried(["broken", "o-2"]);
    let mut done = done.take();
    done.retain(|id| id != "o-1");
    assert_eq!(done, ["o-3", "o-4"]);
}

#[tokio::test(start_paused = true)]
async fn when_keys_cant_be_completed_nothing_more_is_claimed() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let bench = Bench::new(Consumer::new(handler(&slow, &done)).concurrency(1));
    let denied = StoreErrorKind::AccessDenied;
    bench.store().fail(Operation::Complete, denied, 1);
    let answer = bench.run(event(["o-1", "o-2", "o-3"])).await;
    assert_eq!(answer.retried().len(), 3);
    assert!(done.take().len() < 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_waits_until_all_are_decoded_or_its_time_begins() {
    let (calls, notes) = Notes::pair();
    let handler = decoding(&Slow::default()).call_batch(move |orders: Batch<Order>| {
        notes.add(ids(&orders));
        async move { orders.all_succeeded() }
    });
    let bench = Bench::new(Consumer::new(handler).concurrency(2));
    let answer = bench.run(event(["o-1", "o-2", "o-3", "o-4", "o-5"])).await;
    answer.assert_all_acknowledged();
    assert_eq!(calls.take().concat().len(), 5);
    let answer = bench.run(event(["o-6", "never"])).await;
    answer.assert_processed("o-6").assert_retried(["never"]);
    assert_eq!(calls.take(), [["o-6"]]);
}

#[tokio::test(start_paused = true)]
async fn the_first_record_of_a_group_has_its_effect_though_another_of_its_key_is_decoded_first() {
    let (calls, notes) = Notes::pair();
    let keyed = Handler::decode(Slow::default()).key(|_: &Order| "one");
    let bench = Bench::new(keyed.call_batch(move |orders: Batch<Order>| {
        notes.add(ids(&orders));
        async move { orders.all_succeeded() }
    }));
    let records = ["slower", "o-2"].map(|id| Record::json(id).message_id(id).fifo("a"));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_processed("slower").assert_terminal("o-2");
    assert_eq!(calls.take(), [["slower"]]);
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_reports_a_dependency_opens_its_breaker() {
    let (slow, done) = Default::default();
    let consumer = Consumer::new(handler(&slow, &done).depends_on("schemas"));
    let bench = Bench::new(consumer.concurrency(1)).max_receive_count(5);
    let down = vec![Record::json("down"); 6];
    let answer = bench.run(Event::new(down)).await;
    assert_eq!(answer.retried().len(), 6);
    answer.assert_reason("m-6", "unavailable: schemas: its breaker is open");
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_waits_is_opened_first_and_compared_by_its_body() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let handler = handler(&slow, &done).envelope(EventBridge);
    let bench = Bench::new(handler.payload_mismatch(PayloadMismatch::Retry));
    let event = |id| Event::new([Record::text(event_bridge(id, "\"o-1\""))]);
    bench.run(event("e-1")).await.assert_processed("m-1");
    bench.run(event("e-2")).await.assert_duplicate("m-1");
    assert_eq!(done.take(), ["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_that_waits_does_not_hold_up_the_others() {
    let (slow, done): (Slow, Notes<String>) = Default::default();
    let first = Arc::new(Notify::new());
    let notify = Arc::clone(&first);
    let quick = orders().call(move |_: Order| {
        notify.notify_one();
        async {}
    });
    let routes = Router::by_attribute("type")
        .route("slow", handler(&slow, &done).namespace("slow"))
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
