//! Hostile user code in one record never prevents the other records from being completed and answered.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::{
    Bench, Bomb, Notes, Order, SECOND, TestStore, handling, handling_batches, keys, orders,
};
use futures_util::FutureExt;
use serde::{Deserialize, Serialize, Serializer};
use sqs_once::once::Once;
use sqs_once::policy::UnknownOutcome;
use sqs_once::{Batch, Completion, Handler, HandlerError, State};
use tokio::time::{advance, sleep};

#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Unspeakable {}

#[tokio::test(start_paused = true)]
async fn an_error_that_cannot_be_shown_and_a_panic_whose_value_panics_fail_their_record_alone() {
    let bench = handling(async |order: Order| match order.id.as_str() {
        "k8" => std::panic::panic_any(Bomb),
        "k9" => Err(HandlerError::retry(Unspeakable)),
        _ => Ok(()),
    });
    assert_eq!(bench.run(keys(10)).await, ["m-8", "m-9"]);
}

/// The drop of `fragile…` panics. Dropping two of them together would end the process.
#[derive(Deserialize)]
struct Fragile {
    id: String,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.id.starts_with("fragile"), "dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_panics_when_it_is_dropped_fails_nothing_else() {
    let forgetful = Handler::json::<Fragile>()
        .key(|payload: &Fragile| payload.id.clone())
        .call(async |payload: Fragile| std::mem::forget(payload));
    let bench = Bench::new().on(forgetful);
    assert_eq!(bench.run(["a", "fragile", "fragile", "b"]).await, [""; 0]);
}

struct Moody(Arc<AtomicUsize>);

impl Clone for Moody {
    fn clone(&self) -> Self {
        assert_ne!(self.0.fetch_add(1, SeqCst), 2, "not today");
        Self(Arc::clone(&self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_panics_when_it_is_cloned_fails_one_record_or_the_records_of_one_call() {
    let moody = || orders().state(Moody(Arc::default()));
    let alone = moody().call(async |_: Order, State(_): State<Moody>| {});
    assert_eq!(Bench::new().on(alone).run(keys(5)).await.len(), 1);

    let together = async |orders: Batch<Order>, _: State<Moody>| orders.all_succeeded();
    let bench = Bench::new().on(moody().call_batch(together));
    // Each call clones the state twice.
    let calls = [vec![], vec!["m-0", "m-1"], vec![]];
    for (at, failed) in calls.into_iter().enumerate() {
        let ids = ["a", "b"].map(|id| format!("{id}{at}"));
        assert_eq!(bench.run(ids).await, failed);
    }
}

/// Notes its drop. The drop of `k5` panics.
struct Guard {
    id: String,
    drops: Notes<String>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.drops.add(self.id.clone());
        assert_ne!(self.id, "k5", "not now");
    }
}

#[tokio::test(start_paused = true)]
async fn every_cancelled_handler_is_dropped_though_one_drop_panics_and_none_ends_early() {
    for (seconds, why) in [(60, "cancelled at the deadline"), (1, "longer than 1s")] {
        let (drops, notes) = Notes::pair();
        let bench = handling(move |order: Order| {
            let drops = notes.clone();
            async move {
                let id = order.id;
                let _guard = Guard { id, drops };
                sleep(Duration::MAX).await;
            }
        });
        let bench = bench.with(|it| it.attempt_timeout(seconds * SECOND));
        assert_eq!(bench.run(keys(10)).await.len(), 10);
        assert_eq!(drops.len(), 10);
        assert_eq!(bench.elapsed(), seconds.min(29) * SECOND);
        let lines = bench.lines();
        let mut reasons = lines.iter().map(|line| &line["reason"]);
        assert!(reasons.all(|reason| reason.contains(why)), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_error_text_is_cut() {
    let bench = handling(async |_: Order| Err::<(), _>("é".repeat(1_000_000)));
    bench.run(["a"]).await;
    assert!(bench.line()["reason"].len() < 2000);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_compute_do_not_keep_finished_effects_from_being_completed() {
    let steps = Notes::default();
    let (effects, settlements) = (steps.clone(), steps.clone());
    let bench = handling(move |_: Order| {
        let effects = effects.clone();
        async move {
            // The first poll advances the time, and there is no second poll: the handler never waits.
            let _ = advance(Duration::from_millis(25)).now_or_never();
            effects.add("effect");
        }
    });
    bench.store.settlements_take(move |_| {
        settlements.add("settle");
        Duration::from_millis(1)
    });
    let bench = bench.with_consumer(|it| it.concurrency(1));
    assert_eq!(bench.run(keys(20)).await, [""; 0]);
    let steps = steps.take();
    let first = steps.iter().position(|step| *step == "settle").unwrap();
    assert!(first < 10, "{first} effects before the first was completed");
}

#[tokio::test(start_paused = true)]
async fn records_whose_turn_a_blocking_handler_used_up_are_given_back_untouched() {
    let bench = handling(async |order: Order| {
        assert_eq!(order.id, "k0", "started after the deadline");
        // Passes the time of cancellation in one poll, before the answer is due.
        let held = advance(Duration::from_millis(29_200));
        let _ = pin!(held).poll(&mut Context::from_waker(Waker::noop()));
    });
    assert_eq!(bench.run(keys(3)).await, ["m-1", "m-2"]);
    assert!(bench.store.is_released("k1") && bench.store.is_released("k2"));
}

#[tokio::test(start_paused = true)]
async fn handlers_that_never_started_have_no_unknown_outcome_though_another_held_the_thread_for_too_long()
 {
    let handler = orders().call(async |_: Order| {
        // Also passes the time of the answer.
        let held = advance(60 * SECOND);
        let _ = pin!(held).poll(&mut Context::from_waker(Waker::noop()));
    });
    let bench = Bench::new().on(handler.unknown_outcome(UnknownOutcome::dead_letter()));
    assert_eq!(bench.run(keys(3)).await, ["m-0", "m-1", "m-2"]);
    sleep(SECOND).await;
    assert!(bench.store.is_released("k1") && bench.store.is_released("k2"));
}

#[tokio::test(start_paused = true)]
async fn in_a_batch_handler_an_error_that_cannot_be_shown_fails_its_record_and_a_panic_whose_value_panics_all()
 {
    let bench = handling_batches(async |orders: Batch<Order>| {
        if orders.records().len() == 2 {
            std::panic::panic_any(Bomb);
        }
        let mut outcome = orders.all_succeeded();
        outcome.failed(&orders.records()[1], Unspeakable);
        outcome.failed(&orders.records()[2], Unspeakable);
        outcome
    });
    assert_eq!(bench.run(keys(4)).await, ["m-1", "m-2"]);
    assert_eq!(bench.run(["a", "b"]).await, ["m-0", "m-1"]);
}

#[tokio::test(start_paused = true)]
async fn payloads_that_all_panic_when_they_are_dropped_do_not_end_the_process() {
    for slow in [false, true] {
        let dropping = Handler::json::<Fragile>()
            .key(|payload: &Fragile| payload.id.clone())
            .call_batch(move |batch: Batch<Fragile>| async move {
                if slow {
                    sleep(Duration::MAX).await;
                }
                batch.all_succeeded()
            });
        let ids = (0..3).map(|at| format!("fragile-{at}"));
        let failed = Bench::new().on(dropping).run(ids).await;
        assert_eq!(failed.is_empty(), !slow);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_that_holds_its_thread_past_the_deadline_is_not_polled_once_more() {
    let (steps, notes) = Notes::pair();
    let bench = handling_batches(move |orders: Batch<Order>| {
        let notes = notes.clone();
        async move {
            notes.add("started");
            // Holds the thread for a minute, and asks to be polled again at once.
            let mut held = pin!(advance(60 * SECOND));
            poll_fn(|context| {
                context.waker().wake_by_ref();
                held.as_mut().poll(context)
            })
            .await;
            notes.add("went on");
            orders.all_succeeded()
        }
    });
    assert_eq!(bench.run(keys(10)).await.len(), 10);
    assert_eq!(steps.take(), ["started"]);
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
    let (effects, notes) = Notes::pair();
    let alone = orders().call(move |order: Order| {
        notes.add(order.id);
        async { Completion(Unwritable) }
    });
    let notes = effects.clone();
    let together = orders().call_batch(move |orders: Batch<Order>| {
        let mut outcome = orders.outcome();
        for record in &orders {
            notes.add(record.payload().id.clone());
            outcome.ended(record, Completion(Unwritable));
        }
        async { outcome }
    });
    let bench = Bench::new();
    let together = bench.consumer(together).store(TestStore::default());
    for consumer in [bench.consumer(alone), together] {
        for _ in 0..2 {
            assert_eq!(bench.deliver(&consumer, keys(2)).await, [""; 0]);
        }
        assert_eq!(effects.take(), ["k0", "k1"], "{}", bench.log.all());
    }
    let idempotency = bench.idempotency();
    let invocation = idempotency.until(bench.deadline());
    let work = || async { Ok::<_, HandlerError>(Unwritable) };
    let done = invocation.run("a", work).await.unwrap();
    assert!(matches!(done, Once::Processed(Unwritable)));
    let duplicate = invocation.run("a", work).await.unwrap();
    assert!(matches!(duplicate, Once::Duplicate(None)));
}
