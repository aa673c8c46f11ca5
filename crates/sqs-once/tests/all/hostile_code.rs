//! Hostile user code in one record never prevents the other records from being recorded and answered.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::{Bench, Order, event, order};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize, Serializer};
use sqs_once::store::Store;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, StoreFuture};
use sqs_once::testing::TestSettings;
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{
    Batch, Consumer, HandlerError, Idempotency, MemoryStore, Once, Recorded, Remaining, RunError,
    State, consumer,
};
use tokio::time::{advance, sleep};

fn orders(count: usize) -> serde_json::Value {
    event((0..count).map(|at| order(&format!("k{at}"))))
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("not now");
    }
}

#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test(start_paused = true)]
async fn an_error_that_cannot_be_shown_fails_its_record_alone() {
    let bench = Bench::new();
    let unspeakable = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| match order.id.as_str() {
            "k9" => Err(HandlerError::retry(Unspeakable)),
            _ => Ok(()),
        });
    let consumer = bench.consumer(unspeakable);
    assert_eq!(bench.invoke(&consumer, orders(10)).await, ["m-9"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_whose_value_panics_fails_its_record_alone() {
    let bench = Bench::new();
    let exploding = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| {
            if order.id == "k9" {
                std::panic::panic_any(Bomb);
            }
        });
    let consumer = bench.consumer(exploding);
    assert_eq!(bench.invoke(&consumer, orders(10)).await, ["m-9"]);
}

#[derive(Deserialize)]
struct Fragile {
    id: String,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert_ne!(self.id, "twice", "dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_panics_when_it_is_dropped_fails_nothing_else() {
    let bench = Bench::new();
    let forgetful = consumer::<Fragile>()
        .key(|payload: &Fragile| payload.id.clone())
        .handler(async |payload: Fragile| std::mem::forget(payload));
    let consumer = bench.consumer(forgetful);
    let failed = bench
        .invoke(&consumer, event(["a", "twice", "twice", "b"].map(order)))
        .await;
    assert!(failed.is_empty(), "{failed:?}");
}

struct Moody(Arc<AtomicUsize>);

impl Clone for Moody {
    fn clone(&self) -> Self {
        assert_ne!(self.0.fetch_add(1, SeqCst), 2, "not today");
        Self(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_panics_when_it_is_cloned_fails_one_record() {
    let bench = Bench::new();
    let moody = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .state(Moody(Arc::default()))
        .handler(async |_: Order, State(_): State<Moody>| {});
    let consumer = bench.consumer(moody);
    assert_eq!(bench.invoke(&consumer, orders(5)).await.len(), 1);
}

/// Counts its drops. One of them panics.
struct Counted {
    panics: bool,
    drops: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.fetch_add(1, SeqCst);
        assert!(!self.panics, "not now");
    }
}

fn guarded(bench: &Bench, drops: &Arc<AtomicUsize>) -> Consumer {
    let drops = Arc::clone(drops);
    let guarded = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(move |order: Order| {
            let drops = Arc::clone(&drops);
            async move {
                let _guard = Counted {
                    panics: order.id == "k5",
                    drops,
                };
                sleep(Duration::MAX).await;
            }
        });
    bench.consumer(guarded)
}

#[tokio::test(start_paused = true)]
async fn every_cancelled_handler_is_dropped_though_one_drop_panics() {
    let bench = Bench::new();
    let drops = Arc::default();
    let consumer = guarded(&bench, &drops);
    assert_eq!(bench.invoke(&consumer, orders(10)).await.len(), 10);
    assert_eq!(drops.load(SeqCst), 10);
}

#[tokio::test(start_paused = true)]
async fn a_drop_that_panics_at_the_record_timeout_ends_no_other_record_early() {
    let bench = Bench::new();
    let drops = Arc::default();
    let consumer = guarded(&bench, &drops).record_timeout(Duration::from_secs(1));
    let begun = bench.clock.now();
    assert_eq!(bench.invoke(&consumer, orders(10)).await.len(), 10);
    assert_eq!(drops.load(SeqCst), 10);
    assert_eq!(bench.clock.now().since(begun), Duration::from_secs(1));
    let lines = bench.log.take("sqs_once::record");
    assert!(
        lines
            .iter()
            .all(|line| line["reason"].contains("longer than 1s"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_of_its_record_timeout() {
    let bench = Bench::new();
    let told = Arc::new(Mutex::new(Duration::ZERO));
    let noting = {
        let told = Arc::clone(&told);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order, remaining: Remaining| {
                *told.lock().unwrap() = remaining.duration();
                async {}
            })
    };
    let consumer = bench
        .consumer(noting)
        .record_timeout(Duration::from_secs(2));
    bench.invoke(&consumer, orders(1)).await;
    assert_eq!(*told.lock().unwrap(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn an_endless_error_text_is_cut() {
    let bench = Bench::new();
    let verbose = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |_: Order| Err::<(), _>("é".repeat(1_000_000)));
    let consumer = bench.consumer(verbose);
    bench.invoke(&consumer, orders(1)).await;
    assert!(bench.log.take("sqs_once::record")[0]["reason"].len() < 2000);
}

#[tokio::test(start_paused = true)]
async fn a_key_extractors_error_is_not_logged() {
    let bench = Bench::new();
    let telling = consumer::<Order>()
        .key(|order: &Order| Err::<String, _>(format!("no number in {}", order.id)))
        .handler(async |_: Order| {});
    let consumer = bench.consumer(telling);
    bench.invoke(&consumer, event([order("secret")])).await;
    assert!(!bench.log.all().contains("secret"));
}

/// Real threads and real time, since the handlers block a thread. The first handler blocks until the answer is sent.
/// Shutting down the runtime then waits for everything that still runs.
#[test]
fn handlers_that_a_blocking_one_held_up_never_start_after_the_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (answered, is_answered) = mpsc::channel::<()>();
    let is_answered = Arc::new(Mutex::new(is_answered));
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&starts);
    let before = runtime.block_on(async {
        let blocking = consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                counted.fetch_add(1, SeqCst);
                let is_answered = Arc::clone(&is_answered);
                async move {
                    let _ = is_answered.lock().unwrap().recv();
                    tokio::task::yield_now().await;
                }
            });
        let bench = sqs_once::testing::Bench::new(blocking).timeout(Duration::from_millis(300));
        let orders: Vec<_> = (0..10)
            .map(|id| serde_json::json!({ "id": id.to_string() }))
            .collect();
        let answer = bench.run(sqs_once::testing::Event::new(&orders)).await;
        for number in 1..=10 {
            answer.assert_failed(&format!("m-{number}"));
        }
        let before = starts.load(SeqCst);
        drop(answered);
        before
    });
    drop(runtime);
    assert_eq!(starts.load(SeqCst), before);
}

/// Records when settlements are sent.
struct Noting {
    inner: MemoryStore,
    steps: Arc<Mutex<Vec<&'static str>>>,
}

impl Store for Noting {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.inner.claim(claims)
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.steps.lock().unwrap().push("settle");
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.inner.settle(settlements).await
        })
    }

    fn read<'a>(&'a self, ids: &'a [sqs_once::key::ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.inner.read(ids)
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_that_compute_do_not_keep_finished_effects_from_being_recorded() {
    let bench = Bench::new();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let store = Noting {
        inner: MemoryStore::new(),
        steps: Arc::clone(&steps),
    };
    let computing = {
        let steps = Arc::clone(&steps);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                let steps = Arc::clone(&steps);
                async move {
                    // The first poll advances the time, and there is no second poll: the handler never waits.
                    let _ = advance(Duration::from_millis(25)).now_or_never();
                    steps.lock().unwrap().push("effect");
                }
            })
    };
    let consumer = bench.consumer(computing).store(store).concurrency(1);
    assert!(bench.invoke(&consumer, orders(20)).await.is_empty());
    let steps = steps.lock().unwrap();
    let first = steps.iter().position(|step| *step == "settle").unwrap();
    assert!(first < 10, "{first} effects before the first was recorded");
}

#[tokio::test(start_paused = true)]
async fn records_whose_turn_a_blocking_handler_used_up_are_given_back_untouched() {
    let bench = Bench::new();
    let blocking = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| {
            assert_eq!(order.id, "k0", "started after the deadline");
            // Passes the time of cancellation in one poll, before the answer is due.
            let held = tokio::time::advance(Duration::from_millis(29_200));
            let _ = pin!(held).poll(&mut Context::from_waker(Waker::noop()));
        });
    let consumer = bench.consumer(blocking);
    assert_eq!(bench.invoke(&consumer, orders(3)).await, ["m-1", "m-2"]);
    for key in ["k1", "k2"] {
        let free = bench.store.item(key).unwrap().lease_until;
        assert_eq!(free, Some(Timestamp::default()), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_that_panics_fails_its_records_and_frees_their_keys() {
    let bench = Bench::new();
    let exploding = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(async |orders: Batch<Order>| {
            if orders.len() == 2 {
                std::panic::panic_any(Bomb);
            }
            orders.all_succeeded()
        });
    let consumer = bench.consumer(exploding);
    assert_eq!(bench.invoke(&consumer, orders(2)).await, ["m-0", "m-1"]);
    let free = bench.store.item("k0").unwrap().lease_until;
    assert_eq!(free, Some(Timestamp::default()));
    assert!(bench.invoke(&consumer, orders(3)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_error_of_one_record_that_cannot_be_shown_fails_it_alone_in_a_batch_handler() {
    let bench = Bench::new();
    let unspeakable = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(async |orders: Batch<Order>| {
            let mut outcome = orders.all_succeeded();
            outcome.failed(&orders[1], Unspeakable);
            outcome.failed(&orders[2], Unspeakable);
            outcome
        });
    let consumer = bench.consumer(unspeakable);
    assert_eq!(bench.invoke(&consumer, orders(4)).await, ["m-1", "m-2"]);
}

/// Dropping two of them together would end the process.
#[derive(Deserialize)]
struct Explosive {
    id: String,
}

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn payloads_that_all_panic_when_they_are_dropped_do_not_end_the_process() {
    for slow in [false, true] {
        let bench = Bench::new();
        let dropping = consumer::<Explosive>()
            .key(|payload: &Explosive| payload.id.clone())
            .batch_handler(move |batch: Batch<Explosive>| async move {
                if slow {
                    sleep(Duration::MAX).await;
                }
                batch.all_succeeded()
            });
        let consumer = bench.consumer(dropping);
        let failed = bench.invoke(&consumer, orders(3)).await;
        assert_eq!(failed.is_empty(), !slow);
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_panics_when_it_is_cloned_fails_the_records_of_a_batch_handler() {
    struct Uncloneable;
    impl Clone for Uncloneable {
        fn clone(&self) -> Self {
            panic!("only one of me");
        }
    }
    let bench = Bench::new();
    let consumer = bench.consumer(
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .state(Uncloneable)
            .batch_handler(async |orders: Batch<Order>, _: State<Uncloneable>| {
                orders.all_succeeded()
            }),
    );
    assert_eq!(bench.invoke(&consumer, orders(2)).await, ["m-0", "m-1"]);
    let lines = bench.log.take("sqs_once::record");
    assert!(
        lines
            .iter()
            .all(|line| line["reason"] == "panicked: only one of me")
    );
}

/// Holds the thread for a minute and asks to be polled again at once.
async fn hold_the_thread() {
    let mut held = pin!(advance(Duration::from_secs(60)));
    poll_fn(|context| {
        context.waker().wake_by_ref();
        held.as_mut().poll(context)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_that_holds_its_thread_past_the_deadline_is_not_polled_once_more() {
    let bench = Bench::new();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&steps);
    let holding = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(move |orders: Batch<Order>| {
            let noted = Arc::clone(&noted);
            async move {
                noted.lock().unwrap().push("started");
                hold_the_thread().await;
                noted.lock().unwrap().push("went on");
                orders.all_succeeded()
            }
        });
    let consumer = bench.consumer(holding);
    assert_eq!(bench.invoke(&consumer, orders(10)).await.len(), 10);
    assert_eq!(*steps.lock().unwrap(), ["started"]);
}

#[tokio::test(start_paused = true)]
async fn work_whose_thread_was_held_until_after_the_deadline_is_not_polled_once_more() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let ends_at = bench.clock.now() + bench.timeout;
    let steps = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&steps);
    // A separate task, which the runtime polls again before its timers.
    let task = tokio::spawn(async move {
        let work = || async {
            noted.lock().unwrap().push("started");
            hold_the_thread().await;
            noted.lock().unwrap().push("went on");
            Ok::<_, HandlerError>(())
        };
        idempotency.until(ends_at).run("a", work).await
    });
    let ended = task.await.unwrap();
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    assert_eq!(*steps.lock().unwrap(), ["started"]);
}

fn idempotency(bench: &Bench) -> Idempotency {
    Idempotency::new()
        .namespace("test")
        .store(bench.store.clone())
        .clock(bench.clock.clone())
}

/// A result that can be neither serialised nor deserialised.
#[derive(Debug, Deserialize)]
struct Unwritable;

impl Serialize for Unwritable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("no JSON")
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_panics_when_it_is_written_never_makes_the_effect_happen_again() {
    let bench = Bench::new();
    let effects = Arc::new(AtomicUsize::new(0));
    let alone = {
        let effects = Arc::clone(&effects);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                effects.fetch_add(1, SeqCst);
                async { Recorded(Unwritable) }
            })
    };
    let together = {
        let effects = Arc::clone(&effects);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .batch_handler(move |orders: Batch<Order>| {
                effects.fetch_add(orders.len(), SeqCst);
                async move {
                    let mut outcome = orders.outcome();
                    for record in &orders {
                        outcome.ended(record, Recorded(Unwritable));
                    }
                    outcome
                }
            })
    };
    for consumer in [alone, together] {
        let consumer = bench.consumer(consumer);
        for _ in 0..2 {
            assert!(bench.invoke(&consumer, orders(2)).await.is_empty());
        }
        assert_eq!(effects.swap(0, SeqCst), 2, "{}", bench.log.all());
        bench
            .store
            .inner
            .remove(&bench.store.item("k0").unwrap().id);
        bench
            .store
            .inner
            .remove(&bench.store.item("k1").unwrap().id);
    }
    let idempotency = idempotency(&bench);
    let work = || async { Ok::<_, HandlerError>(Unwritable) };
    let ends_at = bench.clock.now() + bench.timeout;
    let done = idempotency.until(ends_at).run("a", work).await.unwrap();
    assert!(matches!(done, Once::Processed(Unwritable)));
    let duplicate = idempotency.until(ends_at).run("a", work).await.unwrap();
    assert!(matches!(duplicate, Once::Duplicate(None)));
}
