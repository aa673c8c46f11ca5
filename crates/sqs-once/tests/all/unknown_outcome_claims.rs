//! Attempts of unknown outcome: which claims count as attempts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lambda_runtime::Context;
use serde_json::Value;
use sqs_once::Consumer;
use sqs_once::policy::{Reconciled, UnknownOutcome};
use sqs_once::store::{Claim, Seen, StoreErrorKind};
use sqs_once::testing::{Bench, Operation};
use tokio::time::{Instant, sleep};

use crate::support::{
    Notes, SECOND, TestStore, deliver_until, failures, invoke, keys, order, several, values,
};
use crate::unknown_outcome::{HOUR, REFUSED, TIMED_OUT, answers, bench, deliver, ending};

#[tokio::test(start_paused = true)]
async fn a_clean_failure_whose_release_is_throttled_leaves_no_attempt() {
    let (bench, calls) = bench(&[REFUSED], UnknownOutcome::dead_letter());
    let throttled = StoreErrorKind::Throttled;
    bench.store().fail(Operation::Release, throttled, 5);
    deliver(&bench, "failed 1h processed").await;
    assert_eq!(calls.len(), 2);
}

/// The number of claims in each request, for 100 new keys and ten handlers at a time, which end one after the other or
/// together.
async fn claims(policy: &UnknownOutcome, ends_together: bool) -> Vec<usize> {
    let (requests, noted) = Notes::pair();
    let store = TestStore::default().claims_take(move |claims| {
        noted.add(claims.len());
        SECOND / 200
    });
    let calls = Arc::new(AtomicU32::new(0));
    let handler = values().call(move |_: Value| {
        let calls = calls.fetch_add(1, Ordering::Relaxed);
        let apart = if ends_together { 0 } else { calls };
        sleep(SECOND / 10 + apart * SECOND / 77)
    });
    let handler = handler.namespace("test").unknown_outcome(policy.clone());
    let consumer = Consumer::new(handler).store(store).concurrency(10);
    let response = invoke(&consumer, &several(keys(100)), Context::default()).await;
    assert!(response.batch_item_failures.is_empty());
    requests.take()
}

#[tokio::test(start_paused = true)]
async fn a_request_carries_the_claims_of_the_handlers_that_start_together() {
    let kept = UnknownOutcome::dead_letter();
    for policy in [
        UnknownOutcome::repeat(),
        kept.clone().token_valid_for(24 * HOUR),
    ] {
        assert_eq!(claims(&policy, true).await, [25; 4], "{policy:?}");
        assert_eq!(claims(&policy, false).await, [25; 4], "{policy:?}");
    }
    assert_eq!(claims(&kept, true).await, [10; 10]);
    let one_by_one = [vec![10], vec![1; 90]].concat();
    assert_eq!(claims(&kept, false).await, one_by_one);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_another_worker_keeps_no_other_from_its_handler() {
    let (handler, calls) = ending(&[]);
    let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
    let handler = handler.in_progress_wait(20 * SECOND);
    let bench = Bench::new(Consumer::new(handler).concurrency(1));
    bench.another_worker_claims("a").await;
    let began = Instant::now();
    let answer = bench.run(several(["a", "b"])).await;
    answer.assert_in_progress("m-1").assert_processed("m-2");
    assert!(began.elapsed() >= 20 * SECOND);
    assert_eq!(calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_sent_again_keeps_its_handlers_place() {
    let (handler, calls) = ending(&[]);
    let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
    let bench = Bench::new(Consumer::new(handler).concurrency(1));
    let throttled = StoreErrorKind::Throttled;
    bench.store().fail(Operation::Claim, throttled, 2);
    let answer = bench.run(several(["a", "b"])).await;
    answer.assert_all_acknowledged();
    assert_eq!(calls.len(), 2);
}

/// What follows the requests that carry claims: how long the answer takes, or which error it is.
type After = Box<dyn Fn(&[Claim]) -> Result<Duration, StoreErrorKind> + Send + Sync>;

/// Delivers the record in another process of the bench, whose claims are answered like this, and waits.
async fn deliver_late(bench: &Bench, policy: &UnknownOutcome, after: After) {
    let store = TestStore::over(bench.store().clone()).claims_answered(after);
    let handler = ending(&[]).0.namespace("test");
    let consumer = Consumer::new(handler.unknown_outcome(policy.clone()))
        .store(store)
        .clock(bench.clock().clone());
    let deadline = bench.clock().now() + 30 * SECOND;
    let response = deliver_until(deadline.as_millis(), &consumer, [order("a")]);
    assert_eq!(failures(&response.await.unwrap()).len(), 1);
    bench.clock().advance(HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_handler_never_starts_keeps_the_doubt() {
    for is_frozen in [false, true] {
        let (policy, asked) = answers([Ok(Reconciled::Done)]);
        let (bench, calls) = bench(&[TIMED_OUT], policy.clone());
        deliver(&bench, "failed").await;
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
        deliver_late(&bench, &policy, Box::new(after)).await;
        deliver(&bench, "processed").await;
        assert_eq!((asked.len(), calls.len()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_was_written_without_an_answer_is_no_attempt() {
    let policy = UnknownOutcome::dead_letter();
    let count = AtomicU32::new(0);
    // An answer that is lost and then a refused try, answers that are all lost, and a table that is silent until the
    // deadline.
    let lost = move |_: &[Claim]| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Err(StoreErrorKind::Unanswered),
        _ => Err(StoreErrorKind::Throttled),
    };
    let all_lost = |_: &[Claim]| Err(StoreErrorKind::Unanswered);
    let afters: [After; 3] = [Box::new(lost), Box::new(all_lost), Box::new(|_| Ok(HOUR))];
    for after in afters {
        let (bench, calls) = bench(&[], policy.clone());
        deliver_late(&bench, &policy, after).await;
        deliver(&bench, "processed").await;
        assert_eq!(calls.len(), 1);
    }
}
