//! The deadline guard: one slow record never fails its batch.

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use crate::support::{
    Bench, Log, Notes, Order, SECOND, assert_contains, codes, deliver_until, failures, handling,
    named, noting, on_two_threads, one, orders, set,
};

use sqs_once::consumer::{EventError, Margins};
use sqs_once::extract::Remaining;
use sqs_once::store::Status;
use sqs_once::testing::{Event, TestClock};
use sqs_once::{Consumer, testing};
use tokio::task::yield_now;
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn a_slow_record_is_cancelled_and_the_others_are_acknowledged_in_time() {
    // A short invocation loses a tenth of its time, and a margin longer than the invocation half of it.
    for (timeout, margin, ends_at) in [(30, None, 29_000), (3, None, 2_700), (30, Some(60), 15_000)]
    {
        let obeying = orders().call(async |order: Order| order.obey().await);
        let bench = Bench::with_timeout(timeout * SECOND).on(obeying);
        let margin = margin.map(|seconds: u32| Margins::new().deadline(seconds * SECOND));
        let bench = bench.with_consumer(|it| set(it, margin, Consumer::margins));
        assert_eq!(bench.run(["a", "slow-1", "b"]).await, ["m-1"]);
        assert_eq!(bench.elapsed(), Duration::from_millis(ends_at));
    }
}

/// Cancellation leaves the claim, since a remote effect may be in flight.
#[tokio::test(start_paused = true)]
async fn a_cancelled_records_claim_is_left_to_lapse_and_then_runs_again() {
    for (attempt_timeout, ends) in [
        (60, "failed: deadline, processed"),
        (2, "failed: attempt-timeout, processed"),
    ] {
        let (bench, started) = noting();
        let bench = bench.with(|it| it.attempt_timeout(attempt_timeout * SECOND));
        let lease_until = bench.deadline() + 3 * SECOND;
        assert_eq!(bench.run(["slow-1", "a"]).await, ["m-0"]);
        assert_eq!(bench.elapsed(), attempt_timeout.min(29) * SECOND);
        let lines = bench.lines();
        assert_eq!(codes(&lines), ends);
        assert_contains!(lines[0]["reason"], "cancelled");
        let item = bench.store.item("slow-1").unwrap();
        assert_eq!(item.status, Status::InProgress);
        assert_eq!(item.lease_until, Some(lease_until));

        sleep(lease_until.since(bench.clock.now())).await;
        bench.run(["slow-1"]).await;
        assert_eq!(started.take(), ["slow-1", "a"]);
        sleep(SECOND).await;
        bench.run(["slow-1"]).await;
        assert_eq!(started.take(), ["slow-1"]);
    }
}

/// The monotonic clock may stop while the process is frozen.
#[tokio::test(start_paused = true)]
async fn a_process_that_thaws_after_its_deadline_starts_no_handler_and_goes_on_with_none() {
    let (done, notes) = Notes::pair();
    let clock: &OnceLock<TestClock> = Box::leak(Box::default());
    let frozen = orders().call(move |order: Order| {
        let notes = notes.clone();
        async move {
            notes.add(format!("{} starts", order.id));
            clock.get().unwrap().advance(3600 * SECOND);
            yield_now().await;
            notes.add(format!("{} goes on", order.id));
        }
    });
    let bench = testing::Bench::new(Consumer::new(frozen).concurrency(1));
    clock.set(bench.clock().clone()).ok().unwrap();
    let answer = bench.run(Event::new(["a", "b"].map(named))).await;
    assert_eq!(done.take(), ["a starts"]);
    answer.assert_retried(["a", "b"]);
    answer.assert_reason("a", "cancelled at the deadline");
    answer.assert_reason("b", "the deadline came before it was started");
    // The effect of the first may be in flight.
    let lease_of = async |id| bench.item(id).await.unwrap().lease_until.unwrap();
    assert!(lease_of("a").await > lease_of("b").await);
}

#[tokio::test(start_paused = true)]
async fn records_never_started_are_returned_free() {
    let (bench, started) = noting();
    let bench = bench.with_consumer(|it| it.concurrency(2));
    let ids: Vec<_> = (0..300).map(|at| format!("slow-{at}")).collect();
    assert_eq!(bench.run(ids.clone()).await.len(), 300);
    assert_eq!(started.len(), 2);
    let ends = codes(&bench.lines()[1..3]);
    assert_eq!(ends, "failed: deadline, failed: not-started");
    let now = bench.clock.now();
    let held = ids.iter().filter_map(|id| bench.store.item(id));
    let held = held.filter(|item| item.lease_until > Some(now)).count();
    assert_eq!(held, 2, "only the two that ran may still be held");
    let last = bench.store.item("slow-299");
    assert_eq!(last, None, "the last was never claimed");
}

#[tokio::test(start_paused = true)]
async fn without_time_left_nothing_starts() {
    let bench = Bench::with_timeout(Duration::ZERO);
    let (consumer, started) = bench.noting();
    assert_eq!(bench.deliver(&consumer, ["a"]).await, ["m-0"]);
    assert_eq!(started.len(), 0);
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_how_long_it_may_run() {
    for (margin, attempt_timeout, told) in [(1, 60, 29), (5, 60, 25), (1, 2, 2)] {
        let (notes, noted) = Notes::pair();
        let noting = noted.of_both(|_: Order, remaining: Remaining| remaining.duration());
        let bench = handling(noting)
            .with(|it| it.attempt_timeout(attempt_timeout * SECOND))
            .with_consumer(|it| it.margins(Margins::new().deadline(margin * SECOND)));
        bench.run(["a"]).await;
        assert_eq!(notes.take(), [told * SECOND]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invocation_without_a_deadline_is_refused() {
    let (bench, started) = noting();
    let refused = deliver_until(0, &bench.consumer, ["a"]);
    assert!(matches!(refused.await, Err(EventError::NoDeadline)));
    assert_eq!(started.len(), 0);
}

/// Real threads and real time. A timer wakes the handler, as an answer of a real store would. The handler then blocks
/// the thread that drives the timers and the network of the whole runtime.
#[test]
fn a_handler_that_blocks_the_thread_of_the_driver_does_not_hold_up_the_answer() {
    let (answered, blocked) = mpsc::channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let (was_late, notes) = Notes::pair();
    on_two_threads(async {
        let blocking = orders().call(move |_: Order| {
            let (blocked, notes) = (Arc::clone(&blocked), notes.clone());
            async move {
                sleep(Duration::from_millis(20)).await;
                let answered = blocked.lock().unwrap().recv_timeout(5 * SECOND);
                notes.add(answered.is_err());
            }
        });
        let bench = testing::Bench::new(blocking).timeout(Duration::from_millis(300));
        let log = Log::capture();
        let answer = bench.run(one("a")).await;
        let _ = answered.send(());
        answer.assert_failed("m-1");
        let lines = log.take("sqs_once::record");
        assert_eq!(codes(&lines), "failed: no-outcome");
    });
    assert_eq!(was_late.take(), [false], "the answer was late");
}

#[tokio::test(start_paused = true)]
async fn an_absurd_deadline_locks_no_key_for_longer_than_a_day() {
    let (bench, _) = noting();
    let answer = deliver_until(u64::MAX, &bench.consumer, ["a"]);
    assert_eq!(failures(&answer.await.unwrap()), [""; 0]);
    let lease_until = bench.store.item("a").unwrap().lease_until.unwrap();
    let a_day = Duration::from_hours(24);
    assert_eq!(lease_until.since(bench.clock.now()), a_day + 3 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_emulators_deadline_that_is_a_duration_counts_from_now() {
    let (bench, _) = noting();
    let answer = deliver_until(600_000, &bench.consumer, ["a", "slow-1"]);
    assert_eq!(failures(&answer.await.unwrap()), ["m-1"]);
    assert_eq!(bench.elapsed(), 599 * SECOND);
}
