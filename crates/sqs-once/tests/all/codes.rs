//! The codes of reasons, in the lines of their records. The tests of the subjects have the others.

use serde_json::Value;
use sqs_once::consumer::{Named, Runnable};
use sqs_once::extract::RecordEnd;
use sqs_once::key::KeyError;
use sqs_once::policy::{Dependency, UnknownOutcome};
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::{Handler, HandlerError, ResultExt};

use crate::support::database::{Booking, Turn, book};
use crate::support::{Bench, Line, Order, SECOND, Seen, Tested, codes, handling, noting, orders};

/// Delivers a batch. Returns the outcome and the code in each record's line.
async fn coded<Kind>(bench: &Tested<Kind>, records: impl IntoIterator<Item: Into<Value>>) -> String
where
    Kind: Named + Clone,
    Handler<Kind>: Runnable,
{
    let failed = bench.run(records).await.len();
    let lines = bench.lines();
    let is_done = |line: &&Line| ["processed", "duplicate", "ignored"].contains(&&*line["outcome"]);
    assert_eq!(lines.iter().filter(is_done).count() + failed, lines.len());
    codes(&lines)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cant_be_used_has_a_code() {
    let key = |order: &Order| match &*order.id {
        "error" => Err(KeyError::extractor("no key in 4111-1111")),
        "panic" => panic!("the key is 4111-1111"),
        id => Ok(id.to_owned()),
    };
    let bench = Bench::new().on(Handler::json().key(key).call(async |_: Order| {}));
    let told = "terminal: extractor-failed, terminal: extractor-failed, processed";
    assert_eq!(coded(&bench, ["error", "panic", "a"]).await, told);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_worker_has_has_a_code() {
    let (bench, _) = noting();
    bench.foreign("a", Status::InProgress, SECOND);
    bench.foreign("b", Status::Unknown("EXPIRED".to_owned()), SECOND);
    let told = "in_progress: in-progress, failed: unknown-status";
    assert_eq!(coded(&bench, ["a", "b"]).await, told);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_has_a_code() {
    let (bench, _) = noting();
    bench.store.silent();
    assert_eq!(coded(&bench, ["a"]).await, "failed: not-claimed");
    let (bench, _) = noting();
    bench.store.settlements_take(|_| SECOND * 3600);
    assert_eq!(coded(&bench, ["a"]).await, "failed: not-completed");

    let denied = Turn::Fail(StoreErrorKind::AccessDenied);
    for (turn, told) in [
        (Turn::Hang, "failed: commit-unconfirmed"),
        (denied, "failed: not-committed"),
    ] {
        let bench = Booking::on(orders().call(book), Seen::default());
        bench.database.commits_always(turn);
        assert_eq!(coded(&bench, ["a"]).await, told);
    }
    let (bench, _) = crate::transactional::setup();
    bench.store.fail_condition(0, 1);
    assert_eq!(coded(&bench, ["a"]).await, "failed: condition-not-met");
    bench.store.fail_condition(0, 1);
    let told = "terminal: condition-not-met";
    assert_eq!(coded(&bench, ["sold-out"]).await, told);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_has_a_code() {
    let (bench, _) = noting();
    let told =
        "failed: handler-error, terminal: handler-error, failed: handler-panicked, processed";
    assert_eq!(coded(&bench, ["bad", "hopeless", "panic", "a"]).await, told);

    let refusing = async |end: RecordEnd| match end.message().id() {
        "m-0" => Err(HandlerError::retry("no mail")),
        _ => Err(HandlerError::terminal("no mail")),
    };
    let bench = noting().0.with(|it| it.on_done(refusing));
    let told = "failed: hook-failed, terminal: hook-failed";
    assert_eq!(coded(&bench, ["a", "b"]).await, told);

    let bench = handling(async |_: Order| Err::<(), _>("down").unavailable("payments"));
    let payments = || Dependency::new("payments").failures(1);
    let bench = bench.with(|it| it.depends_on(payments()));
    // The breaker opens with the first.
    let bench = bench.with_consumer(|it| it.concurrency(1));
    let told = "failed: unavailable, failed: unavailable";
    assert_eq!(coded(&bench, ["a", "b"]).await, told);

    let kept = UnknownOutcome::dead_letter();
    let bench = noting().0.with(|it| it.unknown_outcome(kept));
    assert_eq!(coded(&bench, ["panic"]).await, "terminal: outcome-unknown");
    bench.clock.advance(60 * SECOND);
    assert_eq!(coded(&bench, ["panic"]).await, "terminal: outcome-unknown");
    let after = UnknownOutcome::dead_letter().token_valid_for(SECOND);
    let bench = noting().0.with(|it| it.unknown_outcome(after));
    assert_eq!(coded(&bench, ["bad"]).await, "failed: handler-error");
    // Its reason passes through the call of the handler.
    bench.clock.advance(SECOND);
    assert_eq!(coded(&bench, ["bad"]).await, "terminal: outcome-unknown");
}

#[tokio::test(start_paused = true)]
async fn a_record_without_its_turn_has_a_code() {
    let bench = noting().0.with_consumer(|it| it.concurrency(1));
    let told = "failed: deadline, failed: not-started";
    assert_eq!(coded(&bench, ["slow", "a"]).await, told);
    let bench = noting().0.with(|it| it.attempt_timeout(SECOND));
    assert_eq!(coded(&bench, ["slow"]).await, "failed: attempt-timeout");

    // The copy of a record that has failed.
    let told = "failed: handler-error, failed: earlier-message";
    assert_eq!(coded(&noting().0, ["bad", "bad"]).await, told);
}
