//! What the attribute's options come to when the consumer runs.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use sqs_once::{
    Consumer, EventError, HandlerError, Key, Random, Remaining, ResultExt, State, handler,
};
use support::sqs::Sqs;
use support::{Bench, Order, Seen, event, grouped, order};
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
