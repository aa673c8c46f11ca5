//! Attempts of unknown outcome: when the handler runs again, and when it must not.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use lambda_runtime::Context;
use serde_json::{Value, json};
use sqs_once::handler::Next;
use sqs_once::hook::{EarlierAttempt, Reconciled};
use sqs_once::key::{KeyCodec, Namespace};
use sqs_once::policy::{FifoFailure, InProgress, Mode, Requests, UnknownOutcome};
use sqs_once::store::{
    Claim, Fence, Item, Owner, Seen, Settled, Settlement, Settling, Status, Store, StoreErrorKind,
};
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Bench, Event, Operation, Record, TestSettings};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Batch, BusinessKey, Consumer, HandlerError, MemoryStore, ResultExt};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::support::stores::Altered;
use crate::support::{
    self, Notes, SECOND, assert_contains, deliver_until, failures, invoke, keys, one, order,
    several, values,
};

const HOUR: Duration = Duration::from_secs(3600);

/// A dead letter once the token of a day is over.
fn within_a_day() -> UnknownOutcome {
    UnknownOutcome::dead_letter().after(24 * HOUR)
}

type Ended = Result<(), HandlerError>;

/// A consumer that counts its calls. Each ends like this, by its number from 1 on.
fn calling(
    ends: impl Fn(usize) -> BoxFuture<'static, Ended> + Clone + Send + Sync + 'static,
) -> (Consumer, Arc<Mutex<usize>>) {
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let consumer = values().handler(move |_: Value| {
        let mut calls = counted.lock().unwrap();
        *calls += 1;
        ends(*calls)
    });
    (consumer, calls)
}

/// A consumer that counts its calls, and fails the first ones.
fn counting(failures: usize) -> (Consumer, Arc<Mutex<usize>>) {
    calling(move |call| {
        let has_failed = call <= failures;
        boxed(async move {
            if has_failed {
                Err("no answer")?
            } else {
                Ok(())
            }
        })
    })
}

#[tokio::test(start_paused = true)]
async fn an_attempt_within_the_time_runs_and_a_later_one_needs_reconciliation() {
    // The record timeout is the end of an attempt.
    for (after, runs) in [(24 * HOUR - SECOND, true), (24 * HOUR - SECOND / 2, false)] {
        let (consumer, calls) = counting(1);
        let bench = Bench::new(
            consumer
                .unknown_outcome(within_a_day())
                .record_timeout(SECOND),
        );
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(after);
        let answer = bench.run(one("a")).await;
        match runs {
            true => answer.assert_processed("m-1"),
            false => answer
                .assert_terminal("m-1")
                .assert_reason("m-1", "outcome unknown: it was first attempted 23 h ago"),
        };
        assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_deadline_would_cancel_too_late_needs_reconciliation() {
    // Handlers are cancelled one second before the end of the invocation.
    for (timeout, runs) in [(21 * SECOND, true), (22 * SECOND, false)] {
        let (consumer, calls) = counting(1);
        let bench = Bench::new(
            consumer
                .unknown_outcome(within_a_day())
                .record_timeout(HOUR),
        )
        .timeout(timeout);
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(24 * HOUR - 20 * SECOND);
        bench.run(one("a")).await;
        assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_may_take_longer_than_its_token_is_valid() {
    let (consumer, calls) = counting(1);
    let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::dead_letter().after(SECOND)));
    bench.run(one("a")).await.assert_failed("m-1");
    bench.run(one("a")).await.assert_terminal("m-1");
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn attempts_in_between_do_not_start_the_time_again() {
    let (consumer, calls) = counting(usize::MAX);
    let bench = Bench::new(consumer.unknown_outcome(within_a_day()));
    for _ in 0..5 {
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(5 * HOUR);
    }
    bench.run(one("a")).await.assert_terminal("m-1");
    bench.run(one("a")).await.assert_terminal("m-1");
    // At 0, 5, 10, 15 and 20 hours.
    assert_eq!(*calls.lock().unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_the_first_attempt_after_the_key_was_forgotten() {
    let (consumer, calls) = counting(2);
    let bench = Bench::new(consumer.unknown_outcome(within_a_day()));
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(25 * HOUR);
    bench.run(one("a")).await.assert_terminal("m-1");
    forget(&bench).await;
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(22 * HOUR);
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 3);
}

/// Writes what `cargo sqs-once key forget` writes.
async fn forget(bench: &Bench) {
    let mut item = bench.item("a").await.unwrap();
    item.owner = Some(Owner::from_bits(7));
    item.lease_until = Some(Timestamp::default());
    item.fence = Some(Fence::first(bench.clock().now()));
    bench.store().memory().put(item);
}

#[tokio::test(start_paused = true)]
async fn the_age_of_an_item_of_powertools_stays_unknown_until_its_key_is_forgotten() {
    let python = KeyCodec::powertools_python("orders.app.process");
    let id = python.item_id(&BusinessKey::new("a").unwrap()).unwrap();
    let (consumer, calls) = counting(1);
    let bench = Bench::new(consumer.unknown_outcome(within_a_day()).key_codec(python));
    let mut item = Item::new(id, Status::InProgress);
    item.lease_until = Some(Timestamp::from_secs(1));
    bench.store().memory().put(item);
    for _ in 0..2 {
        bench
            .run(one("a"))
            .await
            .assert_terminal("m-1")
            .assert_reason(
                "m-1",
                "outcome unknown: it was first attempted at an unknown time",
            );
    }
    assert_eq!(*calls.lock().unwrap(), 0);
    forget(&bench).await;
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_crash_counts_as_an_attempt_and_its_success_is_of_unknown_outcome() {
    for (policy, later) in [
        (within_a_day(), 25 * HOUR),
        (UnknownOutcome::dead_letter(), HOUR),
    ] {
        let (consumer, calls) = counting(0);
        let bench = Bench::new(consumer.unknown_outcome(policy));
        bench.run_and_crash(one("a")).await;
        bench.clock().advance(later);
        bench.run(one("a")).await.assert_terminal("m-1");
        assert_eq!(*calls.lock().unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_decides_with_the_token_of_every_attempt() {
    for (found, runs) in [
        (Reconciled::Done, false),
        (Reconciled::NotDone, true),
        (Reconciled::Unknown, false),
    ] {
        let (consumer, calls) = counting(1);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        let hook = move |attempt: EarlierAttempt| {
            notes.lock().unwrap().push(attempt);
            async move { Ok(found) }
        };
        let policy = UnknownOutcome::reconcile(hook).after(24 * HOUR);
        let bench = Bench::new(consumer.unknown_outcome(policy));
        let began = sqs_once::time::Clock::now(bench.clock());
        bench.run(one("a")).await;
        bench.clock().advance(25 * HOUR);
        let answer = bench.run(one("a")).await;
        match found {
            Reconciled::Unknown => answer.assert_terminal("m-1"),
            _ => answer.assert_processed("m-1"),
        };
        assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        assert_eq!(asked.len(), 1);
        let first = asked[0].first_attempted_at().unwrap();
        assert!(first.since(began) <= Duration::from_millis(1));
        assert_eq!(asked[0].message().id(), "m-1");
        assert_eq!(asked[0].token().as_str().len(), 32);
        if found != Reconciled::Unknown {
            bench.run(one("a")).await.assert_duplicate("m-1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_fails_the_record() {
    let (consumer, calls) = counting(1);
    let fails = async |_: EarlierAttempt| Err::<Reconciled, HandlerError>("no answer".into());
    let bench =
        Bench::new(consumer.unknown_outcome(UnknownOutcome::reconcile(fails).after(24 * HOUR)));
    bench.run(one("a")).await;
    bench.clock().advance(25 * HOUR);
    bench
        .run(one("a"))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "no answer");
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test]
async fn handlers_that_can_not_be_kept_from_it_fail_at_the_start() {
    let batch = values().batch_handler(async |orders: Batch<Value>| orders.all_succeeded());
    let after = values()
        .handler(async |_: Value| {})
        .mode(Mode::RecordAfter);
    for consumer in [batch, after] {
        let consumer = consumer.namespace("test").store(MemoryStore::new());
        let consumer = consumer.unknown_outcome(UnknownOutcome::dead_letter());
        let error = consumer.init().await.unwrap_err();
        assert_contains!(error.to_string(), "unknown_outcome");
    }
}

/// A withdrawal, after which its handler ends like this.
type End = fn() -> BoxFuture<'static, Ended>;

fn boxed(
    end: impl Future<Output = Result<(), HandlerError>> + Send + 'static,
) -> BoxFuture<'static, Result<(), HandlerError>> {
    Box::pin(end)
}

/// A consumer that counts its calls. The first one ends like this, the others succeed.
fn first_ends(end: End) -> (Consumer, Arc<Mutex<usize>>) {
    let (consumer, calls) = calling(move |call| match call {
        1 => end(),
        _ => boxed(ready(Ok(()))),
    });
    (consumer.record_timeout(SECOND), calls)
}

const TIMED_OUT: End = || boxed(async { Err("the client timed out").outcome_unknown() });

const UNKNOWN_ENDS: [End; 5] = [
    TIMED_OUT,
    || {
        boxed(async {
            Err("the client timed out").outcome_unknown()?;
            unreachable!()
        })
    },
    || {
        boxed(async {
            Err("the bank is down")
                .unavailable("bank")
                .outcome_unknown()
        })
    },
    || boxed(async { panic!("after the request") }),
    || boxed(pending()),
];

const CLEAN_ENDS: [End; 3] = [
    || boxed(async { Err("the bank refuses")? }),
    || boxed(async { Err("try again").retry_after(SECOND) }),
    || boxed(async { Err("the bank is down").unavailable("bank") }),
];

#[tokio::test(start_paused = true)]
async fn an_attempt_of_unknown_outcome_is_not_repeated_and_a_clean_one_is() {
    for (ends, runs) in [(&UNKNOWN_ENDS[..], false), (&CLEAN_ENDS[..], true)] {
        for end in ends {
            let (consumer, calls) = first_ends(*end);
            let consumer = consumer.unknown_outcome(UnknownOutcome::dead_letter());
            let bench = Bench::new(consumer.depends_on("bank"));
            let first = bench.run(one("a")).await;
            assert_ne!(first.outcome("m-1"), Outcome::Processed);
            for _ in 0..2 {
                bench.clock().advance(HOUR);
                let answer = bench.run(one("a")).await;
                if !runs {
                    let reason = "outcome unknown: an earlier attempt may have had the effect";
                    answer.assert_terminal("m-1").assert_reason("m-1", reason);
                }
            }
            assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_whose_client_times_out_is_a_dead_letter_at_once() {
    let (consumer, calls) = first_ends(TIMED_OUT);
    let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::dead_letter()));
    bench
        .run(one("a"))
        .await
        .assert_terminal("m-1")
        .assert_reason("m-1", "outcome unknown: the client timed out");
    // Its claim is left to lapse. Until then another delivery does not run either.
    bench.run(one("a")).await.assert_in_progress("m-1");
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_hook_finds_a_withdrawal_whose_client_timed_out() {
    for (found, runs) in [(Reconciled::Done, false), (Reconciled::NotDone, true)] {
        let (consumer, calls) = first_ends(TIMED_OUT);
        let hook = move |_: EarlierAttempt| ready(Ok(found));
        let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::reconcile(hook)));
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(HOUR);
        bench.run(one("a")).await.assert_processed("m-1");
        bench.run(one("a")).await.assert_duplicate("m-1");
        assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
    }
}

type Answer = Result<Reconciled, HandlerError>;

/// A hook that answers with each of these in turn, and notes how often it is asked.
fn answers<const N: usize>(answers: [Answer; N]) -> (UnknownOutcome, Notes<()>) {
    let (asked, notes) = Notes::pair();
    let left = Arc::new(Mutex::new(VecDeque::from(answers)));
    let hook = move |_: EarlierAttempt| {
        notes.add(());
        ready(left.lock().unwrap().pop_front().unwrap())
    };
    (UnknownOutcome::reconcile(hook), asked)
}

#[tokio::test(start_paused = true)]
async fn the_doubt_lasts_until_the_hook_knows() {
    let (consumer, calls) = first_ends(TIMED_OUT);
    let (policy, asked) = answers([
        Err("no connection".into()),
        Ok(Reconciled::Unknown),
        Ok(Reconciled::NotDone),
    ]);
    let bench = Bench::new(consumer.unknown_outcome(policy));
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(HOUR);
    let answer = bench.run(one("a")).await;
    answer
        .assert_terminal("m-1")
        .assert_reason("m-1", "outcome unknown: ");
    assert_eq!(*calls.lock().unwrap(), 1);
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 2);
    assert_eq!(asked.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn after_an_effect_that_has_not_happened_a_clean_failure_asks_no_more() {
    let (consumer, _) = calling(|call| match call {
        1 => TIMED_OUT(),
        2 => CLEAN_ENDS[0](),
        _ => boxed(ready(Ok(()))),
    });
    let (policy, _) = answers([Ok(Reconciled::NotDone)]);
    let bench = Bench::new(consumer.unknown_outcome(policy));
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.run(one("a")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn an_operator_decides_about_a_kept_attempt() {
    let (consumer, calls) = first_ends(TIMED_OUT);
    let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::dead_letter()));
    bench.run(one("a")).await.assert_terminal("m-1");
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_terminal("m-1");
    forget(&bench).await;
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_arrives_late_ends_the_doubt() {
    let (consumer, _) = first_ends(|| boxed(pending()));
    let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::dead_letter()));
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_terminal("m-1");
    let item = bench.item("a").await.unwrap();
    let kept = bench.clock().now() + HOUR;
    let late = Settlement::new(item.id, item.owner.unwrap(), Settling::complete(kept, None));
    let settled = bench.store().settle(&[late]).await;
    assert_eq!(settled[0].as_ref().unwrap(), &Settled::Written);
    bench.run(one("a")).await.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_started_leaves_no_attempt() {
    let (consumer, calls) = counting(0);
    let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::dead_letter()));
    // The answers to its claims are lost until the deadline.
    bench.store().lose_answers(Operation::Claim, usize::MAX);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.store().lose_answers(Operation::Claim, 0);
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_killed_process_leaves_as_many_attempts_as_handlers_that_ran() {
    let policy = UnknownOutcome::dead_letter();
    let bench = Bench::new(
        counting(0)
            .0
            .namespace("test")
            .unknown_outcome(policy.clone()),
    );
    let begun = Arc::new(Semaphore::new(0));
    let signal = Arc::clone(&begun);
    let hangs = values().handler(move |_: Value| {
        signal.add_permits(1);
        pending::<()>()
    });
    // Nothing that it sends when it is dropped arrives.
    let store = Altered::new(bench.store().clone()).settlements_take(|_| HOUR);
    let killed = hangs
        .namespace("test")
        .store(store)
        .clock(bench.clock().clone());
    let killed = killed.concurrency(10).unknown_outcome(policy);
    let event = several(keys(100));
    let mut context = Context::default();
    context.deadline = (bench.clock().now() + 60 * SECOND).as_millis();
    tokio::select! {
        _ = invoke(&killed, &event, context) => panic!("it was not killed"),
        _ = begun.acquire_many(10) => {}
    }
    bench.clock().advance(HOUR);
    let answer = bench.run(&event).await;
    let ids = (1..=100).map(|at| format!("m-{at}"));
    let (ran, kept): (Vec<_>, Vec<_>) =
        ids.partition(|id| answer.outcome(id) == Outcome::Processed);
    assert_eq!((ran.len(), kept.len()), (90, 10));
    for id in kept {
        answer.assert_terminal(&id);
    }
}

/// The number of claims in each request, for 100 new keys and ten handlers at a time, which end one after the other or
/// together.
async fn claims(policy: &UnknownOutcome, ends_together: bool) -> Vec<usize> {
    let (requests, noted) = Notes::pair();
    let store = Altered::new(MemoryStore::new()).claims_take(move |claims| {
        noted.add(claims.len());
        SECOND / 200
    });
    let calls = Arc::new(AtomicU32::new(0));
    let consumer = values().handler(move |_: Value| {
        let calls = calls.fetch_add(1, Ordering::Relaxed);
        let apart = if ends_together { 0 } else { calls };
        sleep(SECOND / 10 + apart * SECOND / 77)
    });
    let consumer = consumer.namespace("test").store(store).concurrency(10);
    let consumer = consumer.unknown_outcome(policy.clone());
    let response = invoke(&consumer, &several(keys(100)), Context::default()).await;
    assert!(response.batch_item_failures.is_empty());
    requests.take()
}

#[tokio::test(start_paused = true)]
async fn a_request_carries_the_claims_of_the_handlers_that_start_together() {
    let kept = UnknownOutcome::dead_letter();
    for policy in [UnknownOutcome::repeat(), kept.clone().after(24 * HOUR)] {
        assert_eq!(claims(&policy, true).await, [25; 4], "{policy:?}");
        assert_eq!(claims(&policy, false).await, [25; 4], "{policy:?}");
    }
    assert_eq!(claims(&kept, true).await, [10; 10]);
    let one_by_one = [vec![10], vec![1; 90]].concat();
    assert_eq!(claims(&kept, false).await, one_by_one);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_another_worker_keeps_no_other_from_its_handler() {
    let (consumer, calls) = counting(0);
    let consumer = consumer
        .unknown_outcome(UnknownOutcome::dead_letter())
        .in_progress(InProgress::Wait(20 * SECOND))
        .concurrency(1);
    let bench = Bench::new(consumer);
    bench.another_worker_claims("a").await;
    let began = Instant::now();
    let answer = bench.run(several(["a", "b"])).await;
    answer.assert_in_progress("m-1").assert_processed("m-2");
    assert!(began.elapsed() >= 20 * SECOND);
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn by_default_an_attempt_of_unknown_outcome_is_repeated() {
    for end in UNKNOWN_ENDS {
        let (consumer, calls) = first_ends(end);
        let bench = Bench::new(consumer.depends_on("bank"));
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(HOUR);
        bench.run(one("a")).await.assert_processed("m-1");
        assert_eq!(*calls.lock().unwrap(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_under_the_other_id_counts() {
    let (reconciled, asked) = answers([Ok(Reconciled::Done)]);
    let policies = [UnknownOutcome::dead_letter(), reconciled];
    for (policy, outcome) in policies
        .into_iter()
        .zip([Outcome::Terminal, Outcome::Processed])
    {
        let (old, _) = first_ends(TIMED_OUT);
        let old = old
            .namespace("old")
            .unknown_outcome(UnknownOutcome::dead_letter());
        let bench = Bench::new(old);
        bench.run(one("a")).await.assert_terminal("m-1");
        bench.clock().advance(HOUR);
        let (new, calls) = counting(0);
        let new = bench.beside(
            new.namespace("new")
                .also_read(Namespace::new("old").unwrap())
                .unknown_outcome(policy),
        );
        for _ in 0..2 {
            assert_eq!(new.run(one("a")).await.outcome("m-1"), outcome);
            if outcome == Outcome::Processed {
                break;
            }
        }
        assert_eq!(*calls.lock().unwrap(), 0);
    }
    assert_eq!(asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_completion_has_expired_begins_again() {
    let (consumer, calls) = calling(|call| match call {
        2 => CLEAN_ENDS[0](),
        _ => boxed(ready(Ok(()))),
    });
    let consumer = consumer.retention(24 * HOUR);
    let bench = Bench::new(consumer.unknown_outcome(within_a_day()));
    bench.run(one("a")).await.assert_processed("m-1");
    // The table has not deleted the item yet.
    bench.clock().advance(25 * HOUR);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(23 * HOUR);
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_may_outlast_its_token_is_a_warning_once() {
    for (valid_for, warnings) in [(28 * SECOND, 1), (29 * SECOND, 0)] {
        let (consumer, _) = counting(0);
        let policy = UnknownOutcome::dead_letter().after(valid_for);
        // Handlers have 29 of the 30 seconds.
        let it = support::Bench::new();
        let consumer = it.consumer(consumer.unknown_outcome(policy));
        for id in ["a", "b"] {
            deliver_until(it.deadline().as_millis(), &consumer, [order(id)])
                .await
                .unwrap();
        }
        assert_eq!(
            it.log.take("sqs_once::batch::unknown_outcome").len(),
            warnings
        );
    }
}

/// What follows the requests that carry claims: how long the answer takes, or which error it is.
type After = Box<dyn Fn(&[Claim]) -> Result<Duration, StoreErrorKind> + Send + Sync>;

/// Delivers a record in another process of the bench, whose claims are answered like this.
async fn deliver_late(bench: &Bench, policy: UnknownOutcome, after: After) {
    let store = bench.store().clone();
    let consumer = counting(0).0.namespace("test").unknown_outcome(policy);
    let consumer = consumer.store(Altered::new(store).claims_answered(after));
    let consumer = consumer.clock(bench.clock().clone());
    let deadline = bench.clock().now() + 30 * SECOND;
    let response = deliver_until(deadline.as_millis(), &consumer, [order("a")]);
    assert_eq!(failures(&response.await.unwrap()).len(), 1);
    bench.clock().advance(HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_handler_never_starts_keeps_the_doubt() {
    for is_frozen in [false, true] {
        let (consumer, calls) = first_ends(TIMED_OUT);
        let (policy, asked) = answers([Ok(Reconciled::Done)]);
        let consumer = consumer.namespace("test").unknown_outcome(policy.clone());
        let bench = Bench::new(consumer);
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(HOUR);
        let clock = bench.clock().clone();
        let after = move |claims: &[Claim]| match claims[0].seen {
            Seen::Nothing => Ok(Duration::ZERO),
            // The process thaws after its deadline, or the answer to its claim over the attempt is lost.
            _ if is_frozen => {
                clock.advance(60 * SECOND);
                Ok(Duration::ZERO)
            }
            _ => Err(StoreErrorKind::Unanswered),
        };
        deliver_late(&bench, policy, Box::new(after)).await;
        bench.run(one("a")).await.assert_processed("m-1");
        assert_eq!((asked.len(), *calls.lock().unwrap()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_written_without_an_answer_is_no_attempt() {
    let policy = UnknownOutcome::dead_letter();
    let count = AtomicU32::new(0);
    // An answer that is lost and then a refused try, and a table that is silent until the deadline.
    let lost = move |_: &[Claim]| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Err(StoreErrorKind::Unanswered),
        _ => Err(StoreErrorKind::Throttled),
    };
    let afters: [After; 2] = [Box::new(lost), Box::new(|_| Ok(HOUR))];
    for after in afters {
        let (consumer, calls) = counting(0);
        let consumer = consumer.namespace("test").unknown_outcome(policy.clone());
        let bench = Bench::new(consumer);
        deliver_late(&bench, policy.clone(), after).await;
        bench.run(one("a")).await.assert_processed("m-1");
        assert_eq!(*calls.lock().unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clean_failure_is_no_attempt_even_if_its_release_is_throttled() {
    let (consumer, calls) = counting(1);
    let bench = Bench::new(consumer.unknown_outcome(UnknownOutcome::dead_letter()));
    let throttled = StoreErrorKind::Throttled;
    bench.store().fail(Operation::Release, throttled, 5);
    bench.run(one("a")).await.assert_failed("m-1");
    bench.clock().advance(HOUR);
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(*calls.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_completed_under_its_other_id_is_a_duplicate_despite_an_attempt() {
    let (old, _) = counting(0);
    let bench = Bench::new(old.namespace("old"));
    bench.run(one("a")).await.assert_processed("m-1");
    let (new, calls) = counting(0);
    let new = bench.beside(
        new.namespace("new")
            .also_read(Namespace::new("old").unwrap())
            .unknown_outcome(UnknownOutcome::dead_letter()),
    );
    // A worker died before it could end the claim of a duplicate.
    let key = BusinessKey::new("a").unwrap();
    let id = Namespace::new("new").unwrap().item_id(&key);
    let mut lapsed = Item::new(id, Status::InProgress);
    lapsed.lease_until = Some(Timestamp::from_secs(1));
    bench.store().memory().put(lapsed);
    new.run(one("a")).await.assert_duplicate("m-1");
    assert_eq!(*calls.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_layer_does_not_hide_that_the_handler_may_have_had_its_effect() {
    let ends: [End; 3] = [
        TIMED_OUT,
        || boxed(async { panic!("after the request") }),
        || boxed(ready(Ok(()))),
    ];
    for end in ends {
        let (consumer, calls) = first_ends(end);
        let hides = async |_, next: Next| {
            let _ = AssertUnwindSafe(next.run()).catch_unwind().await;
            Err(HandlerError::from("the layer's own error"))
        };
        let consumer = consumer.unknown_outcome(UnknownOutcome::dead_letter());
        let bench = Bench::new(consumer.layer(hides));
        for _ in 0..2 {
            bench.run(one("a")).await.assert_terminal("m-1");
            bench.clock().advance(HOUR);
        }
        assert_eq!(*calls.lock().unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn no_handler_starts_once_its_batch_returns() {
    let key = BusinessKey::new("b").unwrap();
    let late = Namespace::new("test").unwrap().item_id(&key);
    let store = Altered::new(MemoryStore::new()).claims_take(move |claims| {
        let is_late = claims[0].id == late;
        SECOND * u32::from(is_late)
    });
    let (begun, notes) = Notes::pair();
    let consumer = values().handler(move |order: Value| {
        notes.add(order["id"].clone());
        ready(Err::<(), _>("refused"))
    });
    let consumer = consumer.namespace("test").store(store);
    let consumer = consumer
        .requests(Requests::Single)
        .fifo(FifoFailure::ReturnBatch);
    let consumer = consumer.unknown_outcome(UnknownOutcome::dead_letter());
    let records = ["a", "b"].map(|id| Record::json(&json!({ "id": id })).fifo(id));
    let response = invoke(&consumer, &Event::new(records), Context::default()).await;
    assert_eq!(failures(&response).len(), 2);
    assert_eq!(begun.take(), ["a"]);
}
