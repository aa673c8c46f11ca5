//! Code that runs on after its invocation keeps its keys.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use sqs_once::consumer::Margins;
use sqs_once::once::{Invocation, Once, RunError};
use sqs_once::store::{Item, Status, StoreError, StoreErrorKind};
use sqs_once::testing::{Bench, Event, Operation, Record};
use sqs_once::{Batch, BatchHandler, Consumer, Handler, HandlerError, Idempotency, spawn_blocking};
use tokio::task::yield_now;
use tokio::time::{advance, sleep, timeout};

use crate::support::{
    self, SECOND, assert_contains, gate, invoke, named, on_two_threads, one, several, until, values,
};

fn blocking(code: impl Fn() + Clone + Send + Sync + 'static) -> Handler {
    values().call(move |_: Value| {
        let code = code.clone();
        async move { Ok::<_, HandlerError>(spawn_blocking(code).await?) }
    })
}

fn blocking_together(code: impl Fn() + Clone + Send + Sync + 'static) -> BatchHandler {
    values().call_batch(move |orders: Batch<Value>| {
        let code = code.clone();
        async move {
            let _ = spawn_blocking(code).await;
            orders.all_succeeded()
        }
    })
}

/// Lets time pass while blocking code runs. Tokio's paused time does not advance by itself then.
async fn passes(seconds: u32) {
    for _ in 0..2 * seconds {
        for _ in 0..100 {
            yield_now().await;
        }
        advance(SECOND / 2).await;
    }
}

/// Runs a batch whose code outlives its invocation, which ends after 30 s. Its leases end 3 s later.
async fn outlived(bench: &Bench) {
    let (answer, ()) = tokio::join!(bench.run(one("a")), passes(31));
    answer.assert_reason("m-1", "cancelled at the deadline");
}

/// The code keeps its key for so many seconds more.
async fn assert_keeps_its_key(bench: &Bench, what: &str, seconds: u32) {
    for second in 0..seconds {
        assert!(lease(bench).await.is_some(), "{what}: after {second} s");
        passes(1).await;
    }
}

async fn lease(bench: &Bench) -> Option<Duration> {
    let item: Item = bench.item("a").await.unwrap();
    let left = item.lease_until?.since(bench.clock().now());
    Some(left).filter(|left| !left.is_zero() && item.status == Status::InProgress)
}

#[tokio::test(start_paused = true)]
async fn code_that_outlives_its_invocation_keeps_its_key_until_it_ends() {
    let (tell, code) = gate();
    let bench = Bench::new(blocking(code));
    outlived(&bench).await;
    for _ in 0..60 {
        assert!(lease(&bench).await.is_some());
        bench.run(one("a")).await.assert_in_progress("m-1");
        passes(1).await;
    }
    // For this code, and for the next attempt.
    tell.send(()).unwrap();
    tell.send(()).unwrap();
    while lease(&bench).await.is_some() {
        passes(1).await;
    }
    passes(1).await;
    bench.run(one("a")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_renewed_before_its_lease_ends_whatever_handles_it_and_whatever_is_lost() {
    let (_tell, code) = gate();
    let margins = Margins::new().lease(60 * SECOND);
    let alone = || Consumer::new(blocking(code.clone()));
    let together = Consumer::new(blocking_together(code.clone()));
    for (what, consumer, lost, seconds) in [
        ("the code of a batch handler", together, 0, 60),
        ("a renewal without an answer", alone(), 3, 30),
        ("a long margin", alone().margins(margins), 0, 120),
    ] {
        let bench = Bench::new(consumer);
        let unanswered = StoreErrorKind::Unanswered;
        bench.store().fail(Operation::Renew, unanswered, lost);
        outlived(&bench).await;
        assert_keeps_its_key(&bench, what, seconds).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_for_code_that_ends_within_its_invocation() {
    let (tell, code) = gate();
    let bench = support::Bench::new();
    let consumer = bench.consumer(blocking(code).attempt_timeout(SECOND));
    let context = until(bench.deadline());
    let event = one("a");
    let ends = async {
        passes(5).await;
        tell.send(()).unwrap();
    };
    // The service answers when the code has ended.
    let (answer, ()) = tokio::join!(invoke(&consumer, &event, context), ends);
    assert_eq!(answer.batch_item_failures.len(), 1);
    bench.store.take_calls();
    passes(60).await;
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_is_sent_again_before_the_lease_lapses() {
    let (_tell, code) = gate();
    let (bench, hangs) = (support::Bench::new(), AtomicUsize::new(2));
    bench.store.settlements_take(move |_| {
        let less = |left: usize| left.checked_sub(1);
        let hang = hangs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        hang.map_or(Duration::ZERO, |_| Duration::MAX)
    });
    let consumer = bench.consumer(blocking(code));
    let context = until(bench.deadline());
    let event = one("a");
    let renewed = async {
        passes(60).await;
        let item = bench.store.item("a").unwrap();
        assert!(item.lease_until.unwrap() > bench.clock.now());
    };
    tokio::select! {
        biased;
        _ = invoke(&consumer, &event, context) => panic!("the code still runs"),
        () = renewed => {}
    }
}

/// A request with several keys needs a permission of its own, which a role for single requests lacks.
#[tokio::test(start_paused = true)]
async fn each_key_is_renewed_by_a_request_of_its_own_and_the_log_says_why_one_is_not() {
    let (_tell, code) = gate();
    let bench = support::Bench::new();
    let consumer = bench.consumer(blocking(code));
    let (context, event) = (until(bench.deadline()), several(["a", "b"]));
    let renewed = async {
        passes(60).await;
        let calls = bench.store.take_calls();
        let renewals: Vec<_> = calls.iter().filter(|(call, _)| *call == "settle").collect();
        assert!(
            renewals.len() > 2 && renewals.iter().all(|(_, keys)| *keys == 1),
            "{calls:?}"
        );
        let denied = |_: &_| Some(StoreError::new(StoreErrorKind::AccessDenied, "no luck"));
        bench.store.refusing_settlements(denied);
        bench.log.take("sqs_once::lease");
        passes(20).await;
        let lines = bench.log.take("sqs_once::lease");
        for (line, what) in lines.iter().zip(["not renewed yet", "lapse"]) {
            assert_contains!(line["message"], what);
            assert_contains!(line["error"], "no luck");
        }
        assert_eq!(lines.len(), 2, "{lines:?}");
    };
    tokio::select! {
        biased;
        _ = invoke(&consumer, &event, context) => panic!("the code still runs"),
        () = renewed => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_left_out_of_a_batch_handlers_call_holds_no_key() {
    let log = support::Log::capture();
    let (_tell, code) = gate();
    let bench = Bench::new(blocking_together(code));
    let undecodable = Record::text("no JSON").message_id("bad").fifo("g");
    let event = Event::new([named("a").fifo("h"), undecodable, named("left").fifo("g")]);
    let (answer, ()) = tokio::join!(bench.run(event), passes(31));
    answer.assert_reason("left", "an earlier message of its group");
    assert_keeps_its_key(&bench, "the one that is called", 30).await;
    let left = bench.item("left").await.unwrap();
    assert!(left.lease_until.unwrap() < bench.clock().now());
    let [line] = log.take("sqs_once::lease").try_into().unwrap();
    assert_contains!(line["message"], "its leases are renewed");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_worker_has_taken_is_left_to_it() {
    let (_tell, code) = gate();
    let bench = Bench::new(blocking(code));
    outlived(&bench).await;
    bench.another_worker_claims("a").await;
    let owner = bench.item("a").await.unwrap().owner;
    passes(30).await;
    assert_eq!(bench.item("a").await.unwrap().owner, owner);
    let requests = bench.store().requests();
    passes(30).await;
    assert_eq!(bench.store().requests(), requests);
}

#[tokio::test(start_paused = true)]
async fn code_that_never_ends_holds_its_key_for_a_quarter_of_an_hour() {
    let (_tell, code) = gate();
    let bench = Bench::new(blocking(code));
    outlived(&bench).await;
    passes(14 * 60).await;
    assert!(lease(&bench).await.is_some());
    passes(2 * 60).await;
    assert_eq!(lease(&bench).await, None);
}

/// Runs work that waits for this code.
async fn run_blocking(
    invocation: Invocation<'_>,
    code: impl Fn() + Send + 'static,
) -> Result<Once<()>, RunError> {
    let work = || async { Ok::<_, HandlerError>(spawn_blocking(code).await?) };
    invocation.run("a", work).await
}

async fn run_again(
    bench: &support::Bench,
    idempotency: &Idempotency,
) -> Result<Once<()>, RunError> {
    let later = idempotency.until(bench.deadline());
    later.run("a", || async { Ok::<_, HandlerError>(()) }).await
}

/// The work of [`Idempotency`] still has its key.
async fn assert_has_its_key(bench: &support::Bench, idempotency: &Idempotency) {
    let ran = run_again(bench, idempotency).await;
    assert!(matches!(ran, Err(RunError::InProgress { .. })), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn work_without_sqs_keeps_its_key_while_its_code_runs() {
    let (tell, code) = gate();
    let bench = support::Bench::new();
    let idempotency = bench.idempotency();
    let run = run_blocking(idempotency.until(bench.deadline()), code);
    let meanwhile = async {
        passes(60).await;
        assert_has_its_key(&bench, &idempotency).await;
        tell.send(()).unwrap();
    };
    let (ran, ()) = tokio::join!(run, meanwhile);
    assert!(matches!(ran, Err(RunError::Cancelled)), "{ran:?}");
}

#[tokio::test(start_paused = true)]
async fn work_without_sqs_keeps_its_key_while_its_code_runs_though_its_caller_drops_it() {
    let (tell, code) = gate();
    let bench = support::Bench::new();
    let idempotency = bench.idempotency();
    let run = run_blocking(idempotency.until(bench.deadline()), code);
    tokio::select! {
        biased;
        _ = run => panic!("the code still runs"),
        () = passes(1) => {}
    }
    let [line] = bench.log.take("sqs_once::run").try_into().unwrap();
    assert_eq!(line["reason"], "its caller dropped it");
    passes(60).await;
    assert_has_its_key(&bench, &idempotency).await;
    tell.send(()).unwrap();
    let free = || {
        let item = bench.store.item("a").unwrap();
        item.lease_until < Some(bench.clock.now())
    };
    while !free() {
        passes(1).await;
    }
    let late = run_again(&bench, &idempotency).await;
    assert!(matches!(late, Ok(Once::Processed(()))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn work_without_sqs_that_succeeds_is_completed_though_its_code_ends_after_the_deadline() {
    let (tell, code) = gate();
    let bench = support::Bench::new();
    let idempotency = bench.idempotency();
    let until = idempotency.until(bench.deadline());
    let run = until.run("a", || async {
        drop(spawn_blocking(code));
        Ok::<_, HandlerError>(())
    });
    let ends = async {
        passes(60).await;
        tell.send(()).unwrap();
    };
    let (ran, ()) = tokio::join!(run, ends);
    assert!(matches!(ran, Ok(Once::Processed(()))), "{ran:?}");
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);
}

/// Real threads and real time.
#[test]
fn work_without_sqs_keeps_its_key_while_it_blocks_its_own_task() {
    let (tell, code) = gate();
    on_two_threads(async {
        let bench = support::Bench::with_timeout(SECOND / 4);
        let (idempotency, deadline) = (bench.idempotency(), bench.deadline());
        let blocking = idempotency.clone();
        let ended = tokio::spawn(async move {
            let blocks = || async move {
                code();
                Ok::<_, HandlerError>(())
            };
            blocking.until(deadline).run("a", blocks).await.map(drop)
        });
        let lease_until = || bench.store.item("a").and_then(|item| item.lease_until);
        while lease_until().is_none() {
            sleep(SECOND / 100).await;
        }
        bench.clock.advance(60 * SECOND);
        let renewed = async {
            while lease_until() < Some(bench.clock.now()) {
                sleep(SECOND / 100).await;
            }
        };
        let renewed = timeout(10 * SECOND, renewed).await;
        renewed.expect("the lease is renewed");
        assert_has_its_key(&bench, &idempotency).await;
        tell.send(()).unwrap();
        ended.await.unwrap().unwrap();
    });
}
