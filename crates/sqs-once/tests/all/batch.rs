//! The outcome of each record in a batch.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, body, event, order, outcomes};
use serde::Deserialize;
use serde_json::json;
use sqs_once::extract::Attempt;
use sqs_once::policy::{InProgress, Mode, PayloadMismatch};
use sqs_once::store::Status;
use sqs_once::{Consumer, HandlerError, IdempotencyToken, ResultExt, State, consumer, testing};
use tokio::time::sleep;

/// A handler that records its orders. Orders named `bad-…` fail, `lost-…` are terminal and `panic-…` panic.
async fn note(order: Order, State(seen): State<Seen>) -> Result<(), HandlerError> {
    seen.0.lock().unwrap().push(order.id.clone());
    match order.id.split('-').next() {
        Some("bad") => Err("no luck")?,
        Some("lost") => Err("no use").terminal(),
        Some("panic") => panic!("what a surprise"),
        _ => Ok(()),
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn noting(bench: &Bench) -> (Consumer, Seen) {
    let seen = Seen::default();
    let noting = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .state(seen.clone())
        .handler(note);
    (bench.consumer(noting), seen)
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_succeeds_is_answered_with_an_empty_list() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let failed = bench
        .invoke(&consumer, event([order("a"), order("b")]))
        .await;
    assert!(failed.is_empty());
    assert_eq!(seen.take(), ["a", "b"]);
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "processed"), ("m-1", "processed")])
    );
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn exactly_the_failed_records_are_reported_in_batch_order() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let records = ["panic-1", "a", "bad-1", "b", "lost-1", "c"].map(order);
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-2", "m-4"]);
    assert_eq!(seen.take().len(), 6);
    assert_eq!(
        bench.outcomes(),
        outcomes([
            ("m-0", "failed"),
            ("m-1", "processed"),
            ("m-2", "failed"),
            ("m-3", "processed"),
            ("m-4", "terminal"),
            ("m-5", "processed"),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_delivered_again_has_no_effect_and_is_acknowledged() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.invoke(&consumer, event([order("a")])).await;
    let failed = bench.invoke(&consumer, event([order("a")])).await;
    assert!(failed.is_empty());
    assert_eq!(seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_runs_again_at_once_because_its_claim_was_released() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    for _ in 0..3 {
        let records = event([order("bad-1"), order("panic-1"), order("lost-1")]);
        assert_eq!(bench.invoke(&consumer, records).await.len(), 3);
    }
    assert_eq!(seen.take().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_key_past_its_retention_runs_again_though_its_item_still_stands() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.retention(Duration::from_secs(60));
    bench.invoke(&consumer, event([order("a")])).await;
    sleep(Duration::from_secs(59)).await;
    bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(seen.take(), ["a"]);
    sleep(Duration::from_secs(3)).await;
    bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_completed_key_is_a_duplicate_for_28_days_by_default() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.invoke(&consumer, event([order("a")])).await;
    let days = Duration::from_secs(28 * 24 * 60 * 60);
    sleep(days - Duration::from_secs(1)).await;
    bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(seen.take(), ["a"]);
    // The item stores whole seconds.
    sleep(Duration::from_secs(3)).await;
    bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_twice_in_a_batch_runs_once_and_costs_no_request() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let failed = bench
        .invoke(&consumer, event(["a", "b", "a", "a"].map(order)))
        .await;
    assert!(failed.is_empty());
    assert_eq!(seen.take(), ["a", "b"]);
    assert_eq!(bench.store.take_calls(), [("claim", 2), ("settle", 2)]);
    assert_eq!(
        bench.outcomes(),
        outcomes([
            ("m-0", "processed"),
            ("m-1", "processed"),
            ("m-2", "duplicate"),
            ("m-3", "duplicate"),
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_the_batch_fails_with_the_record_it_repeats() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    for id in ["bad-1", "lost-1", "panic-1"] {
        let failed = bench.invoke(&consumer, event([order(id), order(id)])).await;
        assert_eq!(failed, ["m-0", "m-1"]);
        assert_eq!(seen.take(), [id]);
    }
}

/// More records than the consumer takes up before the last one.
const MANY: usize = 300;

#[tokio::test(start_paused = true)]
async fn a_duplicate_far_behind_in_a_batch_ends_as_the_record_it_repeats_did() {
    for (id, failed) in [("a", vec![]), ("bad-1", vec!["m-0", "m-299"])] {
        let bench = Bench::new();
        let (consumer, seen) = noting(&bench);
        let others = (1..MANY - 1).map(|other| format!("o-{other}"));
        let ids = std::iter::once(id.to_owned()).chain(others);
        let records = ids.chain([id.to_owned()]).map(|id| order(&id));
        assert_eq!(bench.invoke(&consumer, event(records)).await, failed);
        assert_eq!(seen.take().iter().filter(|one| *one == id).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_elsewhere_is_not_acknowledged_and_not_run() {
    let bench = Bench::new();
    let gate = Arc::new(tokio::sync::Notify::new());
    let entered = Arc::new(AtomicUsize::new(0));
    let waiting = {
        let (gate, entered) = (Arc::clone(&gate), Arc::clone(&entered));
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                entered.fetch_add(1, SeqCst);
                let gate = Arc::clone(&gate);
                async move { gate.notified().await }
            })
    };
    let consumer = bench.consumer(waiting);
    let first = bench.invoke(&consumer, event([order("a")]));
    let second = async {
        while entered.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let failed = bench
            .invoke(&consumer, event([order("a"), order("a")]))
            .await;
        assert_eq!(failed, ["m-0", "m-1"]);
        assert_eq!(
            bench.outcomes(),
            outcomes([("m-0", "in_progress"), ("m-1", "in_progress")])
        );
        gate.notify_one();
    };
    let (failed, ()) = tokio::join!(first, second);
    assert!(failed.is_empty());
    assert_eq!(entered.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_in_which_nothing_was_tried_did_not_fail_as_a_whole() {
    let obedient = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .raise_on_total_failure(true)
        .handler(note_nothing);
    let bench = testing::Bench::new(obedient);
    bench.another_worker_claims("a").await;
    bench
        .run(testing::Event::new([&json!({ "id": "a" })]))
        .await
        .assert_in_progress("m-1")
        .assert_retried(["m-1"]);
}

async fn note_nothing(_: Order) {}

#[tokio::test(start_paused = true)]
async fn two_records_with_one_message_id_both_run_and_are_reported_once() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let mut records = [order("bad-1"), order("bad-2"), order("a")];
    records[0]["messageId"] = json!("twin");
    records[1]["messageId"] = json!("twin");
    assert_eq!(bench.invoke(&consumer, event(records)).await, ["twin"]);
    assert_eq!(seen.take(), ["bad-1", "bad-2", "a"]);

    // Either order may fail.
    for ids in [["b", "bad-1"], ["bad-1", "c"]] {
        let records = ids.map(|id| {
            let mut record = order(id);
            record["messageId"] = json!("twin");
            record
        });
        assert_eq!(bench.invoke(&consumer, event(records)).await, ["twin"]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_a_completed_key_is_a_warning_or_a_failure_by_policy() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let paid = |total: u64| body(&json!({ "id": "a", "total": total }).to_string());
    bench.invoke(&consumer, event([paid(1), paid(2)])).await;
    bench.invoke(&consumer, event([paid(3)])).await;
    assert_eq!(seen.take(), ["a"]);
    let lines = bench.log.take("sqs_once::record");
    let warned: Vec<_> = lines
        .iter()
        .filter(|line| line["level"] == "WARN")
        .collect();
    assert_eq!(warned.len(), 2);
    assert!(warned.iter().all(|line| line["outcome"] == "duplicate"));

    let strict = consumer.payload_mismatch(PayloadMismatch::Reject);
    let failed = bench.invoke(&strict, event([paid(1), paid(3)])).await;
    assert_eq!(failed, ["m-1"]);
    let unordered = body(r#"{ "total": 1, "id": "a" }"#);
    assert!(bench.invoke(&strict, event([unordered])).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_at_once_than_allowed() {
    let bench = Bench::new();
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let counting = {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                async move {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    sleep(Duration::from_millis(20)).await;
                    running.fetch_sub(1, SeqCst);
                }
            })
    };
    let consumer = bench.consumer(counting).concurrency(7);
    let records = (0..200).map(|at| order(&at.to_string()));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(most.load(SeqCst), 7);
}

#[tokio::test(start_paused = true)]
async fn the_token_is_the_same_for_every_attempt_and_the_fence_grows() {
    let bench = Bench::new();
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let failing = {
        let attempts = Arc::clone(&attempts);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order, token: IdempotencyToken, attempt: Attempt| {
                attempts.lock().unwrap().push((token, attempt.fence()));
                async { Err::<(), _>("again") }
            })
    };
    let consumer = bench.consumer(failing);
    for _ in 0..3 {
        bench
            .invoke(&consumer, event([order("a"), order("b")]))
            .await;
    }
    let attempts = attempts.lock().unwrap();
    let of = |first: usize| {
        attempts
            .iter()
            .skip(first)
            .step_by(2)
            .cloned()
            .collect::<Vec<_>>()
    };
    let (a, b) = (of(0), of(1));
    let tokens = |attempts: &[(IdempotencyToken, _)]| {
        attempts
            .iter()
            .map(|(token, _)| token.clone())
            .collect::<HashSet<_>>()
    };
    assert_eq!((tokens(&a).len(), tokens(&b).len()), (1, 1));
    assert_ne!(a[0].0, b[0].0);
    assert!(a.is_sorted_by(|one, next| one.1 < next.1));
}

#[tokio::test(start_paused = true)]
async fn record_after_skips_what_is_recorded_and_writes_once() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.mode(Mode::RecordAfter);
    let failed = bench
        .invoke(&consumer, event(["a", "bad-1"].map(order)))
        .await;
    assert_eq!(failed, ["m-1"]);
    assert_eq!(bench.store.take_calls(), [("read", 2), ("settle", 1)]);
    let failed = bench
        .invoke(&consumer, event(["a", "bad-1"].map(order)))
        .await;
    assert_eq!(failed, ["m-1"]);
    assert_eq!(seen.take(), ["a", "bad-1", "bad-1"]);
}

#[tokio::test(start_paused = true)]
async fn consumers_that_share_a_store_never_touch_each_others_keys() {
    let bench = Bench::new();
    let (one, seen_by_one) = noting(&bench);
    let (other, seen_by_other) = noting(&bench);
    let other = other.namespace("other");
    bench.invoke(&one, event([order("a")])).await;
    bench.invoke(&other, event([order("a")])).await;
    assert_eq!(
        (seen_by_one.take(), seen_by_other.take()),
        (vec!["a".to_owned()], vec!["a".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn parallel_deliveries_of_many_keys_run_each_key_once() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let batches = (0..8).map(|batch| {
        let records = (0..50).map(move |at| order(&((at * 7 + batch * 13) % 60).to_string()));
        bench.invoke(&consumer, event(records))
    });
    futures_util::future::join_all(batches).await;
    let seen = seen.take();
    assert_eq!(seen.len(), 60);
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_handler_past_its_record_timeout_is_cancelled_alone_and_keeps_its_claim() {
    let bench = Bench::new();
    let slow = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| {
            if order.id == "slow" {
                sleep(Duration::MAX).await;
            }
        });
    let consumer = bench.consumer(slow).record_timeout(Duration::from_secs(2));
    let begun = sqs_once::time::Clock::now(&bench.clock);
    let failed = bench
        .invoke(&consumer, event(["slow", "a"].map(order)))
        .await;
    assert_eq!(failed, ["m-0"]);
    let took = sqs_once::time::Clock::now(&bench.clock).since(begun);
    assert_eq!(took, Duration::from_secs(2));
    let item = bench.store.item("slow").unwrap();
    assert_eq!(item.status, Status::InProgress);
    assert!(item.lease_until > Some(sqs_once::time::Clock::now(&bench.clock)));
}

/// Another batch holds the key of `a` for ten seconds, while this batch waits for it.
async fn beside_a_slow_worker(longest: Duration, status: Result<(), &'static str>) -> Vec<String> {
    let bench = Bench::new();
    let handled = Arc::new(AtomicUsize::new(0));
    let slow = {
        let handled = Arc::clone(&handled);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                let turn = handled.fetch_add(1, SeqCst);
                async move {
                    sleep(Duration::from_secs(if turn == 0 { 10 } else { 0 })).await;
                    if turn == 0 { status } else { Ok(()) }
                }
            })
    };
    let slow = bench.consumer(slow);
    let waiting = slow.clone().in_progress(InProgress::Wait(longest));
    let first = bench.invoke(&slow, event([order("a")]));
    let second = async {
        while handled.load(SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        bench.log.take("sqs_once::record");
        let failed = bench
            .invoke(&waiting, event([order("a"), order("b")]))
            .await;
        assert!(!failed.contains(&"m-1".to_owned()), "others do not wait");
        failed
    };
    let (_, failed) = tokio::join!(first, second);
    failed
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_its_key_ends_as_the_other_worker_does() {
    let patient = Duration::from_secs(20);
    assert!(beside_a_slow_worker(patient, Ok(())).await.is_empty());
    // The other batch released the key, so this batch runs it.
    assert!(
        beside_a_slow_worker(patient, Err("no luck"))
            .await
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_its_key_no_longer_than_allowed() {
    let impatient = Duration::from_secs(3);
    assert_eq!(beside_a_slow_worker(impatient, Ok(())).await, ["m-0"]);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_key_ends_with_the_deadline() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.invoke(&consumer, event([order("a")])).await;
    let now = sqs_once::time::Clock::now(&bench.clock);
    let item = bench.store.item("a").unwrap();
    bench.store.inner.put({
        let mut item = item;
        item.status = Status::InProgress;
        item.lease_until = Some(now + Duration::from_secs(3600));
        item
    });
    seen.take();
    let patient = consumer.in_progress(InProgress::Wait(Duration::MAX));
    assert_eq!(bench.invoke(&patient, event([order("a")])).await, ["m-0"]);
    let took = sqs_once::time::Clock::now(&bench.clock).since(now);
    assert_eq!(took, bench.timeout - Duration::from_secs(1));
    assert!(seen.take().is_empty());
}

/// The number of decoded payloads in memory, and its maximum.
static ALIVE: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));

#[derive(Deserialize)]
#[serde(from = "Order")]
struct Counted {
    id: String,
}

impl From<Order> for Counted {
    fn from(order: Order) -> Self {
        let alive = ALIVE.0.fetch_add(1, SeqCst) + 1;
        ALIVE.1.fetch_max(alive, SeqCst);
        Self { id: order.id }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.0.fetch_sub(1, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn payloads_of_a_large_batch_are_decoded_as_their_turn_comes() {
    let bench = Bench::new();
    let counted = sqs_once::consumer::<Counted>()
        .key(|order: &Counted| order.id.clone())
        .handler(async |_order: Counted| sleep(Duration::from_millis(1)).await);
    let consumer = bench.consumer(counted).concurrency(16);
    let batch = (0..10_000).map(|at| order(&format!("o-{at}")));
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    // The consumer claims up to two hundred records ahead of the handlers.
    let most = ALIVE.1.load(SeqCst);
    assert!((17..=200 + 16).contains(&most), "{most} payloads at once");
    assert_eq!(ALIVE.0.load(SeqCst), 0);
}
