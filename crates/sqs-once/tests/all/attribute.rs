//! What the attribute's options come to when the consumer runs.

use std::cell::RefCell;
use std::time::Duration;

use crate::support::sqs::Sqs;
use crate::support::{Bench, Order, Seen, body, event, grouped, order};
use serde_json::json;
use sqs_once::body::{Sns, Text};
use sqs_once::extract::{CorrelationId, Key};
use sqs_once::hook::RecordEnd;
use sqs_once::key::{KeyCodec, Namespace};
use sqs_once::random::Random;
use sqs_once::{
    Batch, BatchOutcome, Consumer, EventError, HandlerError, Recorded, Remaining, ResultExt, State,
    batch_handler, handler,
};
use tokio::time::sleep;

/// What every handler here does: orders called `bad…` fail, `hopeless…` are terminal, `slow…` take 3 s.
async fn work(order: Order) -> Result<(), HandlerError> {
    match &*order.id {
        id if id.starts_with("bad") => Err("no luck")?,
        id if id.starts_with("hopeless") => Err("no such card").terminal()?,
        id if id.starts_with("slow") => sleep(Duration::from_secs(3)).await,
        _ => {}
    }
    Ok(())
}

#[handler(key = order.id, record_timeout = "2s")]
async fn short(order: Order, remaining: Remaining, State(seen): State<Seen>) {
    drop(order);
    seen.lock()
        .unwrap()
        .push(format!("{:?}", remaining.duration()));
}

#[handler(key = order.id, deadline_margin = "10s")]
async fn early(order: Order, remaining: Remaining, State(seen): State<Seen>) {
    drop(order);
    seen.lock()
        .unwrap()
        .push(format!("{:?}", remaining.duration()));
}

#[tokio::test(start_paused = true)]
async fn a_handlers_time_is_what_record_timeout_and_deadline_margin_leave_it() {
    let bench = Bench::new();
    let seen = Seen::default();
    for consumer in [short::consumer(), early::consumer()] {
        let consumer = bench.consumer(consumer.state(seen.clone()));
        // A store of its own for each: the key is the same.
        let consumer = consumer.store(sqs_once::MemoryStore::new());
        assert!(
            bench
                .invoke(&consumer, event([order("1")]))
                .await
                .is_empty()
        );
    }
    // The bench's invocations have 30 s.
    assert_eq!(*seen.lock().unwrap(), ["2s", "20s"]);
}

#[handler(key = order.id, concurrency = 1)]
async fn lenient(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[handler(key = order.id, concurrency = 1, fifo = strict)]
async fn strict(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[handler(key = order.id, concurrency = 1, fifo = return_batch)]
async fn return_batch(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[tokio::test(start_paused = true)]
async fn a_strict_fifo_consumer_returns_the_whole_rest_of_the_batch() {
    for (consumer, returned) in [
        (lenient::consumer(), vec!["m-0"]),
        (strict::consumer(), vec!["m-0", "m-1"]),
        (return_batch::consumer(), vec!["m-0", "m-1"]),
    ] {
        let bench = Bench::new();
        let records = [grouped("a", "bad"), grouped("b", "b1")];
        let failed = bench
            .invoke(&bench.consumer(consumer), event(records))
            .await;
        assert_eq!(failed, returned);
    }
}

#[handler(key = order.id, in_progress = return_to_queue)]
async fn impatient(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[handler(key = order.id, in_progress = wait("10s"))]
async fn patient(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_waits_as_long_as_the_attribute_says() {
    for (consumer, returned) in [
        (impatient::consumer(), vec!["m-0"]),
        (patient::consumer(), vec![]),
    ] {
        let bench = Bench::new();
        let consumer = bench.consumer(consumer);
        let second = async {
            sleep(Duration::from_secs(1)).await;
            bench.invoke(&consumer, event([order("slow")])).await
        };
        let (first, second) = tokio::join!(bench.invoke(&consumer, event([order("slow")])), second);
        assert!(first.is_empty());
        assert_eq!(second, returned);
    }
}

#[handler(key = order.id, requests = single)]
async fn one_by_one(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[tokio::test(start_paused = true)]
async fn keys_travel_one_by_one_where_the_attribute_says_so() {
    let bench = Bench::new();
    let consumer = bench.consumer(one_by_one::consumer());
    let records = (0..30).map(|at| order(&format!("k{at}")));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    let calls = bench.store.take_calls();
    assert_eq!(calls.len(), 60);
    assert!(calls.iter().all(|(_, entries)| *entries == 1), "{calls:?}");
}

#[handler(key = order.id, raise_on_total_failure = true)]
async fn loud(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[handler(key = order.id, raise_on_total_failure = false)]
async fn quiet(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[tokio::test(start_paused = true)]
async fn an_invocation_that_failed_whole_raises_only_where_the_attribute_says_so() {
    let bench = Bench::new();
    let invoke = async |consumer: Consumer| {
        let consumer = bench.consumer(consumer);
        bench.try_invoke(&consumer, event([order("bad")])).await
    };
    let error = invoke(loud::consumer()).await.unwrap_err();
    assert!(matches!(
        error,
        EventError::EveryRecordFailed { records: 1 }
    ));
    assert!(invoke(quiet::consumer()).await.is_ok());
}

#[handler(key = order.id, readable_keys = true, cache = 1)]
async fn readable(order: Order, key: Key, State(seen): State<Seen>) {
    drop(order);
    seen.lock().unwrap().push(key.item_id().to_string());
}

#[tokio::test(start_paused = true)]
async fn keys_are_shown_and_remembered_as_the_attribute_says() {
    let bench = Bench::new();
    let seen = Seen::default();
    let consumer = bench.consumer(readable::consumer().state(seen.clone()));
    for id in ["a", "b", "b"] {
        assert!(bench.invoke(&consumer, event([order(id)])).await.is_empty());
    }
    assert_eq!(*seen.lock().unwrap(), ["test#s:a", "test#s:b"]);
    let both = [("claim", 1), ("settle", 1)];
    assert_eq!(bench.store.take_calls(), [both, both].concat());
    // There is room for one.
    assert!(
        bench
            .invoke(&consumer, event([order("a")]))
            .await
            .is_empty()
    );
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
}

#[handler(
    key = line,
    decode = Text,
    envelope = Sns,
    correlation_id = |message| message.content().map(str::to_uppercase)
)]
async fn unwrapped(line: String, correlation: CorrelationId, State(seen): State<Seen>) {
    seen.lock().unwrap().push(format!("{line}: {correlation}"));
}

/// The text, published to an SNS topic that the queue subscribes to.
fn published(text: &str) -> serde_json::Value {
    let envelope = json!({
        "Type": "Notification",
        "MessageId": "p-1",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:lines",
        "Message": text,
        "Timestamp": "2026-03-01T12:00:00.000Z",
    });
    body(&envelope.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_message_is_opened_decoded_and_correlated_as_the_attribute_says() {
    let bench = Bench::new();
    let seen = Seen::default();
    let consumer = bench.consumer(unwrapped::consumer().state(seen.clone()));
    let records = [published("no json"), published("no json")];
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["no json: NO JSON"]);
}

thread_local! {
    /// What the hooks were called for, in this test's thread: they are functions, and have no state.
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn note(hook: &str, end: &RecordEnd) {
    let recorded: Option<String> = end.recorded().unwrap();
    let call = format!("{hook} {}: {recorded:?}", end.message().id());
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

async fn succeeded(end: RecordEnd) -> Result<(), HandlerError> {
    note("success", &end);
    Ok(())
}

async fn repeated(end: RecordEnd) -> Result<(), HandlerError> {
    note("duplicate", &end);
    Ok(())
}

async fn failed(end: RecordEnd) -> Result<(), HandlerError> {
    note("failure", &end);
    Ok(())
}

#[handler(
    key = order.id,
    concurrency = 1,
    on_success = succeeded,
    on_duplicate = repeated,
    on_failure = failed
)]
async fn hooked(order: Order) -> Result<Recorded<String>, HandlerError> {
    work(order.clone()).await?;
    Ok(Recorded(format!("r-{}", order.id)))
}

#[tokio::test(start_paused = true)]
async fn the_attributes_hooks_are_called_each_for_its_own_end() {
    let bench = Bench::new();
    let consumer = bench.consumer(hooked::consumer());
    let records = [order("1"), order("bad"), order("1")];
    assert_eq!(bench.invoke(&consumer, event(records)).await, ["m-1"]);
    let mut calls = CALLS.take();
    calls.sort();
    let expected = [
        "duplicate m-2: Some(\"r-1\")",
        "failure m-1: None",
        "success m-0: Some(\"r-1\")",
    ];
    assert_eq!(calls, expected);
}

#[batch_handler(
    key = |line| line,
    decode = Text,
    envelope = Sns,
    on_success = succeeded,
    on_duplicate = repeated
)]
async fn together(lines: Batch<String>, State(seen): State<Seen>) -> BatchOutcome {
    seen.lock().unwrap().extend(lines.payloads().cloned());
    lines.all_succeeded()
}

#[tokio::test(start_paused = true)]
async fn a_batch_handlers_options_are_those_of_a_handler() {
    let bench = Bench::new();
    let seen = Seen::default();
    let consumer = bench.consumer(together::consumer().state(seen.clone()));
    let records = [published("one"), published("one")];
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["one"]);
    let mut calls = CALLS.take();
    calls.sort();
    assert_eq!(calls, ["duplicate m-1: None", "success m-0: None"]);
}

#[handler(key = order.id, cache = (1000, "7s"))]
async fn forgetful(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[tokio::test(start_paused = true)]
async fn a_key_is_remembered_as_long_as_the_attribute_says() {
    let bench = Bench::new();
    let consumer = bench.consumer(forgetful::consumer());
    let records = || event([order("1")]);
    bench.invoke(&consumer, records()).await;
    bench.store.take_calls();
    sleep(Duration::from_secs(6)).await;
    bench.invoke(&consumer, records()).await;
    assert_eq!(bench.store.take_calls(), []);
    sleep(Duration::from_secs(2)).await;
    bench.invoke(&consumer, records()).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
}

/// The least that chance can do.
struct Least;

impl Random for Least {
    fn bits(&self) -> u128 {
        0
    }
}

#[handler(
    key = order.id,
    backoff = exponential("7s", "15m"),
    after_dead_letter = go_on
)]
async fn go_on(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[handler(key = order.id, after_dead_letter = stop)]
async fn stop(order: Order) -> Result<(), HandlerError> {
    work(order).await
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_stays_away_as_the_attributes_backoff_says() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = bench.consumer(go_on::consumer());
    let consumer = consumer.sqs_client(sqs.client()).random(Least);
    bench.invoke(&consumer, event([order("bad")])).await;
    let [request] = sqs
        .asked("ChangeMessageVisibilityBatch")
        .try_into()
        .unwrap();
    assert_eq!(request["Entries"][0]["VisibilityTimeout"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_group_goes_on_after_a_dead_letter_only_where_the_attribute_says_so() {
    let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq";
    for (consumer, returned) in [(go_on::consumer(), vec![]), (stop::consumer(), vec!["m-1"])] {
        let (bench, sqs) = (Bench::new(), Sqs::default());
        let consumer = bench.consumer(consumer).dead_letter_queue(url);
        let consumer = consumer.sqs_client(sqs.client());
        let records = [grouped("a", "hopeless"), grouped("a", "a2")];
        assert_eq!(bench.invoke(&consumer, event(records)).await, returned);
        assert_eq!(sqs.asked("SendMessage").len(), 1);
    }
}

#[handler(key = order.id)]
async fn before(order: Order) {
    drop(order);
}

#[handler(
    key = order.id,
    key_codec = KeyCodec::powertools_python("orders.app.process"),
    also_read = Namespace::new("test").unwrap()
)]
async fn after(order: Order, key: Key, State(seen): State<Seen>) {
    drop(order);
    seen.lock().unwrap().push(key.item_id().to_string());
}

#[tokio::test(start_paused = true)]
async fn keys_stand_under_the_codec_and_are_looked_up_under_the_other_one() {
    let bench = Bench::new();
    let seen = Seen::default();
    let before = bench.consumer(before::consumer());
    let after = bench.consumer(after::consumer().state(seen.clone()));
    for (consumer, id) in [(&before, "a"), (&after, "a"), (&after, "b")] {
        assert!(bench.invoke(consumer, event([order(id)])).await.is_empty());
    }
    let codec = KeyCodec::powertools_python("orders.app.process");
    let id = codec.item_id(&sqs_once::BusinessKey::of("b").unwrap());
    assert_eq!(*seen.lock().unwrap(), [id.unwrap().to_string()]);
}

#[handler(key = sqs_once::key::nfc(&order.id), namespace = "test")]
async fn in_one_form(order: Order, State(seen): State<Seen>) {
    seen.lock().unwrap().push(order.id);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_one_unicode_form_recognises_a_text_in_the_other() {
    let (bench, seen) = (Bench::new(), Seen::default());
    let consumer = bench.consumer(in_one_form::consumer().state(seen.clone()));
    let batch = ["Zo\u{eb}", "Zoe\u{308}", "Zoe"].map(order);
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    assert_eq!(*seen.lock().unwrap(), ["Zo\u{eb}", "Zoe"]);
}
