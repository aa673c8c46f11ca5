//! Attempts of unknown outcome: when the handler runs again, and when it must not.

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use sqs_once::extract::EarlierAttempt;
use sqs_once::handler::{Next, RecordAfter};
use sqs_once::key::Ids;
use sqs_once::policy::{Reconciled, UnknownOutcome};
use sqs_once::store::{Settled, Settlement, Settling, Store};
use sqs_once::telemetry::Outcome;
use sqs_once::testing::Bench;
use sqs_once::{BusinessKey, Handler, HandlerError, ResultExt};

pub(crate) use crate::also_read::HOUR;
use crate::also_read::{forget, namespace, of_python};
use crate::support::{self, Notes, SECOND, assert_contains, lapsed, one, refusal, values};

/// A dead letter once the token of a day is over.
fn within_a_day() -> UnknownOutcome {
    UnknownOutcome::dead_letter().token_valid_for(24 * HOUR)
}

type Ended = Result<(), HandlerError>;

/// A withdrawal, after which its handler ends like this.
type End = fn() -> BoxFuture<'static, Ended>;

fn boxed(end: impl Future<Output = Ended> + Send + 'static) -> BoxFuture<'static, Ended> {
    Box::pin(end)
}

pub(crate) const REFUSED: End = || boxed(async { Err("the bank refuses")? });
pub(crate) const TIMED_OUT: End = || boxed(async { Err("the client timed out").outcome_unknown() });
const PANICS: End = || boxed(async { panic!("after the request") });
const DONE: End = || boxed(ready(Ok(())));

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
    PANICS,
    || boxed(pending()),
];

const CLEAN_ENDS: [End; 3] = [
    REFUSED,
    || boxed(async { Err("try again").retry_after(SECOND) }),
    || boxed(async { Err("the bank is down").unavailable("bank") }),
];

/// A handler that notes its calls. The first ones end like this, and the others succeed.
pub(crate) fn ending(first: &[End]) -> (Handler, Notes<()>) {
    let (calls, notes) = Notes::pair();
    let first = first.to_vec();
    let handler = values().call(move |_: Value| {
        notes.add(());
        first.get(notes.len() - 1).unwrap_or(&DONE)()
    });
    (handler.attempt_timeout(SECOND).depends_on("bank"), calls)
}

/// The same on a bench, with this policy.
pub(crate) fn bench(first: &[End], policy: UnknownOutcome) -> (Bench, Notes<()>) {
    let (handler, calls) = ending(first);
    let handler = handler.namespace("test").unknown_outcome(policy);
    (Bench::new(handler), calls)
}

/// Delivers the record with each of these outcomes. A number of hours is a pause.
pub(crate) async fn deliver(bench: &Bench, story: &str) {
    for word in story.split(' ') {
        match word.strip_suffix('h') {
            Some(hours) => bench.clock().advance(HOUR * hours.parse().unwrap()),
            None => {
                let answer = bench.run(one("a")).await;
                assert_eq!(answer.outcome("m-1").to_string(), word, "{story}");
            }
        }
    }
}

/// Does this for a handler whose first calls end like this. Returns the number of its calls.
async fn calls(first: &[End], policy: UnknownOutcome, story: &str) -> usize {
    let (handler, calls) = ending(first);
    let handler = handler.retention(24 * HOUR);
    deliver(&Bench::new(handler.unknown_outcome(policy)), story).await;
    calls.len()
}

#[tokio::test(start_paused = true)]
async fn an_attempt_within_the_time_runs_and_a_later_one_needs_reconciliation() {
    // The record timeout is the end of an attempt.
    for (after, runs) in [(24 * HOUR - SECOND, true), (24 * HOUR - SECOND / 2, false)] {
        let (bench, calls) = bench(&[REFUSED], within_a_day());
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(after);
        let answer = bench.run(one("a")).await;
        let why = "outcome unknown: it was first attempted 23 h ago";
        match runs {
            true => answer.assert_processed("m-1"),
            false => answer.assert_terminal("m-1").assert_reason("m-1", why),
        };
        assert_eq!(answer.code("m-1"), (!runs).then_some("outcome-unknown"));
        assert_eq!(calls.len(), 1 + usize::from(runs));
    }
    // Handlers are cancelled one second before the end of the invocation.
    for (timeout, runs) in [(21 * SECOND, true), (22 * SECOND, false)] {
        let (handler, calls) = ending(&[REFUSED]);
        let handler = handler.unknown_outcome(within_a_day());
        let bench = Bench::new(handler.attempt_timeout(HOUR)).timeout(timeout);
        bench.run(one("a")).await.assert_failed("m-1");
        bench.clock().advance(24 * HOUR - 20 * SECOND);
        bench.run(one("a")).await;
        assert_eq!(calls.len(), 1 + usize::from(runs));
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_may_take_longer_than_its_token_is_valid() {
    let brief = UnknownOutcome::dead_letter().token_valid_for(SECOND / 2);
    assert_eq!(calls(&[REFUSED], brief, "failed terminal").await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_the_first_attempt_of_a_key_that_is_not_completed() {
    let story = "failed 5h failed 5h failed 5h failed 5h failed 5h terminal terminal";
    assert_eq!(calls(&[REFUSED; 9], within_a_day(), story).await, 5);
    // The table has not deleted the expired completion yet.
    let story = "processed 25h failed 23h processed";
    assert_eq!(calls(&[DONE, REFUSED], within_a_day(), story).await, 3);

    let (bench, calls) = bench(&[REFUSED; 2], within_a_day());
    deliver(&bench, "failed 25h terminal").await;
    forget(&bench, "a").await;
    deliver(&bench, "1h failed 22h processed").await;
    assert_eq!(calls.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_age_of_an_item_of_powertools_stays_unknown_until_its_key_is_forgotten() {
    let (python, id) = of_python("a");
    let (handler, calls) = ending(&[REFUSED]);
    let bench = Bench::new(handler.unknown_outcome(within_a_day()).ids(python));
    bench.store().memory().put(lapsed(id));
    for _ in 0..2 {
        let why = "outcome unknown: it was first attempted at an unknown time";
        let answer = bench.run(one("a")).await;
        answer.assert_terminal("m-1").assert_reason("m-1", why);
    }
    assert_eq!(calls.len(), 0);
    forget(&bench, "a").await;
    deliver(&bench, "1h failed processed").await;
    assert_eq!(calls.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_crash_counts_as_an_attempt_and_its_success_is_of_unknown_outcome() {
    let kept = UnknownOutcome::dead_letter();
    for (policy, later) in [(within_a_day(), "25h terminal"), (kept, "1h terminal")] {
        let (bench, calls) = bench(&[], policy);
        bench.run_and_crash(one("a")).await;
        deliver(&bench, later).await;
        assert_eq!(calls.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_decides_with_the_token_of_every_attempt() {
    for (found, outcome) in [
        (Reconciled::Done, "processed"),
        (Reconciled::NotDone, "processed"),
        (Reconciled::Unknown, "terminal"),
    ] {
        let (asked, notes) = Notes::pair();
        let hook = move |attempt: EarlierAttempt| {
            notes.add(attempt);
            ready(Ok(found))
        };
        let policy = UnknownOutcome::reconcile(hook).token_valid_for(24 * HOUR);
        let (bench, calls) = bench(&[REFUSED], policy);
        let began = bench.clock().now();
        deliver(&bench, &format!("failed 25h {outcome}")).await;
        let runs = usize::from(found == Reconciled::NotDone);
        assert_eq!(calls.len(), 1 + runs);
        let [attempt] = asked.take().try_into().unwrap();
        let first = attempt.first_attempted_at().unwrap();
        assert!(first.since(began) <= Duration::from_millis(1));
        assert_eq!(attempt.message().id(), "m-1");
        assert_eq!(attempt.token().as_str().len(), 32);
        if found != Reconciled::Unknown {
            deliver(&bench, "duplicate").await;
        }
    }
}

#[tokio::test]
async fn a_handler_that_can_not_be_kept_from_it_fails_at_the_start() {
    let after = values().call(RecordAfter(async |_: Value| {}));
    let after = after.unknown_outcome(UnknownOutcome::dead_letter());
    assert_contains!(refusal(after.namespace("test")).await, "unknown_outcome");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_unknown_outcome_is_repeated_only_by_default_and_a_clean_one_always() {
    let kept = UnknownOutcome::dead_letter();
    for (ends, policy, runs) in [
        (&UNKNOWN_ENDS[..], kept.clone(), false),
        (&CLEAN_ENDS[..], kept, true),
        (&UNKNOWN_ENDS[..], UnknownOutcome::repeat(), true),
    ] {
        for end in ends {
            let (bench, calls) = bench(&[*end], policy.clone());
            let first = bench.run(one("a")).await;
            assert_ne!(first.outcome("m-1"), Outcome::Processed);
            for _ in 0..2 {
                bench.clock().advance(HOUR);
                let answer = bench.run(one("a")).await;
                if !runs {
                    let reason = "outcome unknown: an earlier attempt may have had the effect";
                    answer.assert_terminal("m-1").assert_reason("m-1", reason);
                    assert_eq!(answer.code("m-1"), Some("outcome-unknown"));
                }
            }
            assert_eq!(calls.len(), 1 + usize::from(runs));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_whose_client_times_out_is_a_dead_letter_at_once() {
    let (bench, calls) = bench(&[TIMED_OUT], UnknownOutcome::dead_letter());
    let answer = bench.run(one("a")).await;
    answer.assert_reason("m-1", "outcome unknown: the client timed out");
    let end = format!("{}: {}", answer.outcome("m-1"), answer.code("m-1").unwrap());
    assert_eq!(end, "terminal: outcome-unknown");
    // Its claim is left to lapse. Until then another delivery does not run either.
    deliver(&bench, "in_progress 1h terminal").await;
    assert_eq!(calls.len(), 1);
    // An operator decides.
    forget(&bench, "a").await;
    deliver(&bench, "processed").await;
    assert_eq!(calls.len(), 2);
}

type Answer = Result<Reconciled, HandlerError>;

/// A hook that answers with each of these in turn, and notes how often it is asked.
pub(crate) fn answers<const N: usize>(answers: [Answer; N]) -> (UnknownOutcome, Notes<()>) {
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
    let (policy, asked) = answers([
        Err("no connection".into()),
        Ok(Reconciled::Unknown),
        Ok(Reconciled::Done),
    ]);
    let story = "failed 1h failed 1h terminal 1h processed duplicate";
    assert_eq!(calls(&[TIMED_OUT], policy, story).await, 1);
    assert_eq!(asked.len(), 3);
    // After an effect that has not happened, a clean failure asks no more.
    let (policy, asked) = answers([Ok(Reconciled::NotDone)]);
    let story = "failed 1h failed processed";
    assert_eq!(calls(&[TIMED_OUT, REFUSED], policy, story).await, 3);
    assert_eq!(asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_arrives_late_ends_the_doubt() {
    let (bench, _) = bench(&[|| boxed(pending())], UnknownOutcome::dead_letter());
    deliver(&bench, "failed 1h terminal").await;
    let item = bench.item("a").await.unwrap();
    let kept = bench.clock().now() + HOUR;
    let late = Settlement::new(item.id, item.owner.unwrap(), Settling::complete(kept, None));
    let settled = bench.store().settle(&[late]).await;
    assert_eq!(settled[0].as_ref().unwrap(), &Settled::Written);
    deliver(&bench, "duplicate").await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_and_a_completion_under_the_other_id_count() {
    let kept = UnknownOutcome::dead_letter();
    let (reconciled, asked) = answers([Ok(Reconciled::Done)]);
    for (end, policy, expected, is_done) in [
        (TIMED_OUT, kept.clone(), "terminal terminal", false),
        (TIMED_OUT, reconciled, "processed duplicate", false),
        (DONE, kept.clone(), "duplicate", true),
    ] {
        let old = ending(&[end]).0.namespace("old");
        let bench = Bench::new(old.unknown_outcome(kept.clone()));
        bench.run(one("a")).await;
        bench.clock().advance(HOUR);
        if is_done {
            // A worker died before it could end the claim of a duplicate.
            let id = namespace("new").item_id(&BusinessKey::new("a").unwrap());
            bench.store().memory().put(lapsed(id));
        }
        let (new, calls) = ending(&[]);
        let ids = Ids::hashed().also_read(namespace("old"));
        let new = new.namespace("new").ids(ids);
        deliver(&bench.beside(new.unknown_outcome(policy)), expected).await;
        assert_eq!(calls.len(), 0);
    }
    assert_eq!(asked.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_that_may_outlast_its_token_is_a_warning_once() {
    for (valid_for, warnings) in [(28 * SECOND, 1), (29 * SECOND, 0)] {
        let policy = UnknownOutcome::dead_letter().token_valid_for(valid_for);
        let handler = values().call(async |_: Value| {});
        // Handlers have 29 of the 30 seconds.
        let it = support::Bench::new();
        let it = it.on(handler.unknown_outcome(policy));
        it.run(["a"]).await;
        it.run(["b"]).await;
        let warned = it.log.take("sqs_once::batch::unknown_outcome");
        assert_eq!(warned.len(), warnings);
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_does_not_hide_that_the_handler_may_have_had_its_effect() {
    for end in [TIMED_OUT, PANICS, DONE] {
        let (handler, calls) = ending(&[end]);
        let hides = async |_, next: Next| {
            let _ = AssertUnwindSafe(next.run()).catch_unwind().await;
            Err(HandlerError::from("the layer's own error"))
        };
        let handler = handler.unknown_outcome(UnknownOutcome::dead_letter());
        let bench = Bench::new(handler.layer(hides));
        deliver(&bench, "terminal 1h terminal").await;
        assert_eq!(calls.len(), 1);
    }
}
