//! The deadline guard: one slow record never fails its batch.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, event, failures, order};
use sqs_once::store::Status;
use sqs_once::testing::Event;
use sqs_once::time::Clock;
use sqs_once::{Consumer, EventError, Remaining, consumer};
use tokio::time::sleep;

type Started = Arc<Mutex<Vec<String>>>;

/// Orders named `slow-…` never end.
fn endless(bench: &Bench) -> (Consumer, Started) {
    let started = Started::default();
    let noting = {
        let started = Arc::clone(&started);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |order: Order| {
                started.lock().unwrap().push(order.id.clone());
                async move {
                    if order.id.starts_with("slow") {
                        sleep(Duration::MAX).await;
                    }
                }
            })
    };
    (bench.consumer(noting), started)
}

#[tokio::test(start_paused = true)]
async fn a_slow_record_is_cancelled_and_the_others_are_acknowledged_in_time() {
    let bench = Bench::new();
    let (consumer, _) = endless(&bench);
    let begun = bench.clock.now();
    let failed = bench
        .invoke(&consumer, event(["a", "slow-1", "b"].map(order)))
        .await;
    assert_eq!(failed, ["m-1"]);
    assert_eq!(
        bench.clock.now().since(begun),
        bench.timeout - Duration::from_secs(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_records_claim_is_left_to_lapse_and_then_runs_again() {
    let bench = Bench::new();
    let (consumer, started) = endless(&bench);
    bench.invoke(&consumer, event([order("slow-1")])).await;
    let item = bench.store.item("slow-1").unwrap();
    assert_eq!(item.status, Status::InProgress);
    // The lease is the deadline plus three seconds.
    assert_eq!(
        item.lease_until,
        Some(bench.clock.now() + Duration::from_secs(1 + 3))
    );

    sleep(Duration::from_secs(4)).await;
    bench.invoke(&consumer, event([order("slow-1")])).await;
    assert_eq!(started.lock().unwrap().len(), 1);
    sleep(Duration::from_secs(1)).await;
    bench.invoke(&consumer, event([order("slow-1")])).await;
    assert_eq!(started.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn records_never_started_are_returned_free() {
    let bench = Bench::new();
    let (consumer, started) = endless(&bench);
    let consumer = consumer.concurrency(2);
    let ids: Vec<_> = (0..300).map(|at| format!("slow-{at}")).collect();
    let failed = bench
        .invoke(&consumer, event(ids.iter().map(|id| order(id))))
        .await;
    assert_eq!(failed.len(), 300);
    assert_eq!(started.lock().unwrap().len(), 2);
    let now = bench.clock.now();
    let held = ids.iter().filter_map(|id| bench.store.item(id));
    let held = held.filter(|item| item.lease_until > Some(now)).count();
    assert_eq!(held, 2, "only the two that ran may still be held");
    assert!(
        bench.store.item("slow-299").is_none(),
        "the last was never claimed"
    );
}

#[tokio::test(start_paused = true)]
async fn without_time_left_nothing_starts() {
    let mut bench = Bench::new();
    bench.timeout = Duration::ZERO;
    let (consumer, started) = endless(&bench);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert!(started.lock().unwrap().is_empty());
    assert!(bench.store.take_calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_short_invocation_gives_up_a_tenth_of_its_time() {
    let mut bench = Bench::new();
    bench.timeout = Duration::from_secs(3);
    let (consumer, _) = endless(&bench);
    let begun = bench.clock.now();
    bench.invoke(&consumer, event([order("slow-1")])).await;
    assert_eq!(bench.clock.now().since(begun), Duration::from_millis(2700));
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_how_long_it_may_run() {
    let bench = Bench::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let told = Arc::clone(&told);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order, remaining: Remaining| {
                told.lock().unwrap().push(remaining.duration());
                async {}
            })
    };
    let consumer = bench
        .consumer(noting)
        .deadline_margin(Duration::from_secs(5));
    bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(*told.lock().unwrap(), [Duration::from_secs(25)]);
}

#[tokio::test(start_paused = true)]
async fn an_invocation_without_a_deadline_is_refused() {
    let mut bench = Bench::new();
    bench.timeout = Duration::ZERO;
    let (consumer, started) = endless(&bench);
    let event = lambda_runtime::LambdaEvent::new(
        serde_json::from_value(event([order("a")])).unwrap(),
        lambda_runtime::Context::default(),
    );
    let refused = tower_service::Service::call(&mut consumer.clone(), event).await;
    assert!(matches!(refused, Err(EventError::NoDeadline)));
    assert!(started.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_while_it_is_cancelled_costs_no_other_record() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("not now");
        }
    }
    let bench = Bench::new();
    let exploding = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| {
            if order.id == "slow-1" {
                let _bomb = Bomb;
                sleep(Duration::MAX).await;
            }
        });
    let consumer = bench.consumer(exploding);
    let failed = bench
        .invoke(&consumer, event(["a", "slow-1", "b"].map(order)))
        .await;
    assert_eq!(failed, ["m-1"]);
}

/// Real threads and real time: the handler blocks its thread until the answer arrives.
#[test]
fn a_handler_that_blocks_its_thread_does_not_hold_up_the_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (answered, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    runtime.block_on(async {
        let blocking = consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |order: Order| {
                let blocked = Arc::clone(&blocked);
                async move {
                    if order.id == "slow-1" {
                        let _ = blocked.lock().unwrap().recv();
                    }
                }
            });
        let bench = sqs_once::testing::Bench::new(blocking).timeout(Duration::from_millis(300));
        let orders = ["slow-1", "b"].map(|id| serde_json::json!({ "id": id }));
        let answer = bench.run(Event::new(&orders));
        let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
        let answer = answer.expect("the answer must not wait for the handler");
        answered.send(()).unwrap();
        answer.assert_failed("m-1");
    });
}

/// The same for a handler that a timer has woken, as an answer of a real store would. It then blocks the thread that
/// drives the timers and the network of the whole runtime.
#[test]
fn a_handler_that_blocks_the_thread_of_the_driver_does_not_hold_up_the_answer() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (answered, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let was_late = Arc::new(Mutex::new(None));
    let is_late = Arc::clone(&was_late);
    runtime.block_on(async {
        let blocking = consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order| {
                let (blocked, is_late) = (Arc::clone(&blocked), Arc::clone(&is_late));
                async move {
                    sleep(Duration::from_millis(20)).await;
                    let answered = blocked.lock().unwrap().recv_timeout(Duration::from_secs(5));
                    *is_late.lock().unwrap() = Some(answered.is_err());
                }
            });
        let bench = sqs_once::testing::Bench::new(blocking).timeout(Duration::from_millis(300));
        let answer = bench
            .run(Event::new(&[serde_json::json!({ "id": "a" })]))
            .await;
        let _ = answered.send(());
        answer.assert_failed("m-1");
    });
    drop(runtime);
    assert_eq!(
        *was_late.lock().unwrap(),
        Some(false),
        "the answer was late"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_the_deadline_by_its_margin() {
    let bench = Bench::new();
    let (consumer, _) = endless(&bench);
    let deadline = bench.clock.now() + bench.timeout;
    let margin = Duration::from_secs(90);
    let consumer = consumer.lease_margin(margin);
    bench.invoke(&consumer, event([order("a")])).await;
    let item = bench.store.item("a").unwrap();
    assert_eq!(item.lease_until, Some(deadline + margin));
}

#[tokio::test(start_paused = true)]
async fn an_absurd_deadline_locks_no_key_for_longer_than_a_day() {
    let bench = Bench::new();
    let (consumer, _) = endless(&bench);
    let mut context = lambda_runtime::Context::default();
    context.deadline = u64::MAX;
    let event = serde_json::from_value(event([order("a")])).unwrap();
    let event = lambda_runtime::LambdaEvent::new(event, context);
    let answer = tower_service::Service::call(&mut consumer.clone(), event).await;
    assert!(failures(&answer.unwrap()).is_empty());
    let lease_until = bench.store.item("a").unwrap().lease_until.unwrap();
    let a_day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(
        lease_until.since(bench.clock.now()),
        a_day + Duration::from_secs(3)
    );
}

#[tokio::test(start_paused = true)]
async fn an_emulators_deadline_that_is_a_duration_counts_from_now() {
    let bench = Bench::new();
    let (consumer, _) = endless(&bench);
    let begun = bench.clock.now();
    let mut context = lambda_runtime::Context::default();
    context.deadline = 600_000;
    let event = serde_json::from_value(event(["a", "slow-1"].map(order))).unwrap();
    let event = lambda_runtime::LambdaEvent::new(event, context);
    let answer = tower_service::Service::call(&mut consumer.clone(), event).await;
    assert_eq!(failures(&answer.unwrap()), ["m-1"]);
    assert_eq!(bench.clock.now().since(begun), Duration::from_secs(599));
}

#[tokio::test(start_paused = true)]
async fn a_margin_longer_than_the_invocation_leaves_half_of_it() {
    let bench = Bench::new();
    let (consumer, _) = endless(&bench);
    let consumer = consumer.deadline_margin(bench.timeout * 2);
    let begun = bench.clock.now();
    let failed = bench
        .invoke(&consumer, event(["a", "slow-1"].map(order)))
        .await;
    assert_eq!(failed, ["m-1"]);
    assert_eq!(bench.clock.now().since(begun), bench.timeout / 2);
}
