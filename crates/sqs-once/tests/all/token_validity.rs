//! Effects that are too old to repeat under their token.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sqs_once::hook::{EarlierAttempt, Reconciled};
use sqs_once::key::KeyCodec;
use sqs_once::policy::Mode;
use sqs_once::store::{Fence, Item, Owner, Status};
use sqs_once::testing::Bench;
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Batch, BusinessKey, Consumer, HandlerError, MemoryStore};

use crate::support::{SECOND, assert_contains, one, values};

const HOUR: Duration = Duration::from_secs(3600);

/// A consumer that counts its calls, and fails the first ones.
fn counting(failures: usize) -> (Consumer, Arc<Mutex<usize>>) {
    let calls = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&calls);
    let consumer = values().handler(move |_: Value| {
        let mut calls = counted.lock().unwrap();
        *calls += 1;
        let has_failed = *calls <= failures;
        async move { if has_failed { Err("no answer") } else { Ok(()) } }
    });
    (consumer.token_valid_for(24 * HOUR), calls)
}

#[tokio::test(start_paused = true)]
async fn an_attempt_within_the_time_runs_and_a_later_one_needs_reconciliation() {
    // The record timeout is the end of an attempt.
    for (after, runs) in [(24 * HOUR - SECOND, true), (24 * HOUR - SECOND / 2, false)] {
        let (consumer, calls) = counting(1);
        let bench = Bench::new(consumer.record_timeout(SECOND));
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(after);
        let answer = bench.run(one("a")).await;
        match runs {
            true => answer.assert_processed("m-1"),
            false => answer.assert_terminal("m-1").assert_reason(
                "m-1",
                "needs reconciliation: it was first attempted 23 h ago",
            ),
        };
        assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_deadline_would_cancel_too_late_needs_reconciliation() {
    // Handlers are cancelled one second before the end of the invocation.
    for (timeout, runs) in [(21 * SECOND, true), (22 * SECOND, false)] {
        let (consumer, calls) = counting(1);
        let bench = Bench::new(consumer.record_timeout(HOUR)).timeout(timeout);
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(24 * HOUR - 20 * SECOND);
        bench.run(one("a")).await;
        assert_eq!(*calls.lock().unwrap(), 1 + usize::from(runs));
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_may_take_longer_than_its_token_is_valid() {
    let (consumer, calls) = counting(1);
    let bench = Bench::new(consumer.token_valid_for(SECOND));
    bench.run(one("a")).await.assert_failed("m-1");
    bench.run(one("a")).await.assert_terminal("m-1");
    assert_eq!(*calls.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn attempts_in_between_do_not_start_the_time_again() {
    let (consumer, calls) = counting(usize::MAX);
    let bench = Bench::new(consumer);
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
    let bench = Bench::new(consumer);
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
    let bench = Bench::new(consumer.key_codec(python));
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
                "needs reconciliation: it was first attempted at an unknown time",
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
async fn a_crash_counts_as_an_attempt() {
    let (consumer, calls) = counting(0);
    let bench = Bench::new(consumer);
    bench.run_and_crash(one("a")).await;
    bench.clock().advance(25 * HOUR);
    bench.run(one("a")).await.assert_terminal("m-1");
    assert_eq!(*calls.lock().unwrap(), 1);
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
        let bench = Bench::new(consumer.reconcile(move |attempt: EarlierAttempt| {
            notes.lock().unwrap().push(attempt);
            async move { Ok(found) }
        }));
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
    let bench = Bench::new(consumer.reconcile(fails));
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
        let error = consumer.token_valid_for(HOUR).init().await.unwrap_err();
        assert_contains!(error.to_string(), "token_valid_for");
    }
}
