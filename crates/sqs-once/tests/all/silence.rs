//! Requests to AWS that are never answered: each ends as its own error before the batch's answer.

use std::future::ready;
use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    Bench, DLQ, Mode, Notes, Order, SECOND, assert_contains, codes, ends, failures, invoke, keys,
    named, noting, noting_batches, noting_in, orders, told, until, values,
};
use serde_json::Value;
use sqs_once::policy::Dependency;
use sqs_once::testing::{Event, Record};
use sqs_once::{Batch, Consumer, HandlerError, ResultExt};
use tokio::time::{Instant, sleep};

/// Half of the time between the end of the hooks and the answer is left, to hide what returns.
const MARGIN: Duration = Duration::from_millis(375);
const UNCLAIMED: &str = "its key could not be claimed: the store did not answer";
const UNRECORDED: &str =
    "the handler succeeded, but its key could not be completed: the store did not answer";

/// The batch ended by itself, and the log has this error of the store, once.
fn assert_store_error(bench: &Bench) {
    assert_ended(bench);
    assert_eq!(bench.elapsed(), bench.timeout - MARGIN);
    let [line] = bench.log.take("sqs_once::store").try_into().unwrap();
    assert_contains!(line["error"], "the store did not answer", "in time");
}

fn assert_ended(bench: &Bench) {
    let all = bench.log.all();
    for report in ["a batch did not end in time", "still runs"] {
        assert!(!all.contains(report), "{all}");
    }
}

#[tokio::test(start_paused = true)]
async fn claims_without_an_answer_fail_their_records_with_an_error_of_the_store_however_many() {
    for (mode, count) in [
        (Mode::ClaimFirst, 2),
        (Mode::RecordAfter, 2),
        (Mode::ClaimFirst, 1_000),
    ] {
        let (bench, seen) = noting_in(mode);
        bench.store.silent();
        assert_eq!(bench.run(keys(count)).await.len(), count);
        assert_store_error(&bench);
        let lines = bench.lines();
        let codes = codes(&lines[..2]);
        assert_eq!(codes, ["failed: not-claimed"; 2].join(", "), "{mode:?}");
        assert!(lines[..2].iter().all(|line| line["reason"] == UNCLAIMED));
        assert_eq!(seen.take(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_store_fails_is_hidden_in_time() {
    let sqs = Sqs::default();
    let (bench, _) = noting();
    let backoff = 5 * SECOND..=60 * SECOND;
    bench.store.silent();
    let bench = bench
        .with(|it| it.backoff(backoff))
        .with_consumer(|it| it.queue(sqs.queue()));
    assert_eq!(bench.run(["a"]).await, ["m-0"]);
    assert_store_error(&bench);
    assert_eq!(sqs.asked("ChangeMessageVisibilityBatch").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_the_handlers_time_is_released() {
    let (bench, seen) = noting();
    let late = 29 * SECOND + SECOND / 4;
    bench.store.claims_take(move |_| late);
    assert_eq!(bench.run(["a"]).await, ["m-0"]);
    bench.assert_ended(
        "failed: not-started",
        "the deadline came before it was started",
    );
    assert!(bench.store.is_released("a"));
    assert_eq!(seen.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_batch_handler_without_an_answer_fails_its_record_and_the_rest_runs() {
    let (bench, calls) = noting_batches(Duration::ZERO);
    bench.store.claims_take(|claims| match claims.len() {
        25 => Duration::ZERO,
        _ => Duration::MAX,
    });
    assert_eq!(bench.run(keys(26)).await, ["m-25"]);
    assert_store_error(&bench);
    assert_eq!(calls.take()[0].1.len(), 25);
    let lines = ends(bench.lines());
    assert_eq!(told(&lines)[25], ("failed", UNCLAIMED));
}

#[tokio::test(start_paused = true)]
async fn a_completion_without_an_answer_is_told_apart_from_a_failed_handler() {
    for mode in Mode::BOTH {
        let (bench, seen) = noting_in(mode);
        bench.store.settlements_take(|_| Duration::MAX);
        // The release of a failed record's key is not answered either.
        assert_eq!(bench.run(["a", "bad"]).await, ["m-0", "m-1"]);
        assert_store_error(&bench);
        let expected = [("failed", UNRECORDED), ("failed", "no luck")];
        assert_eq!(told(&ends(bench.lines())), expected);
        assert_eq!(seen.take(), ["a", "bad"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_move_is_not_answered_stays_terminal() {
    let sqs = Sqs::always(Turn::Hang);
    // One second before handlers are cancelled. The consumer's client waits for 2 s.
    let handler = async |_: Order| {
        sleep(28 * SECOND).await;
        Err::<(), HandlerError>("no such card".into()).terminal()
    };
    let bench = Bench::new().on(orders().call(handler));
    let bench = bench.with_consumer(|it| it.queue(sqs.queue().dead_letter_queue(DLQ)));
    assert_eq!(bench.run(["a"]).await, ["m-0"]);
    assert_ended(&bench);
    assert_eq!(bench.elapsed(), bench.timeout - MARGIN);
    let [line] = bench.log.take("sqs_once::dead_letters").try_into().unwrap();
    assert_contains!(line["message"], "could not be moved");
    assert_contains!(line["error"], "SQS did not answer in time");
    bench.assert_ended("terminal: handler-error", "no such card");
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_not_answered_holds_up_no_call_of_a_batch_handler() {
    let (bench, sqs) = (Bench::new(), Sqs::always(Turn::Hang));
    let (called, notes) = Notes::pair();
    let handler = values().call_batch(move |orders: Batch<Value>| {
        notes.add(Instant::now());
        ready(orders.all_succeeded())
    });
    let queue = sqs.queue().dead_letter_queue(DLQ);
    let consumer = bench.consumer(handler).queue(queue);
    let undecodable = Record::text("no JSON").message_id("bad");
    let event = Event::new([undecodable, named("a")]);
    let began = Instant::now();
    let answer = invoke(&consumer, &event, until(bench.deadline())).await;
    assert_eq!(failures(&answer), ["bad"]);
    assert!(called.take()[0] - began < SECOND);
}

/// A consumer whose dependency is down.
fn outage(bench: &Bench, sqs: &Sqs) -> Consumer {
    let payments = Dependency::new("payments").failures(1);
    let handler = values().call(async |_: Value| Err::<(), _>("down").unavailable("payments"));
    let consumer = bench.consumer(handler.depends_on(payments));
    consumer.queue(sqs.queue())
}

#[tokio::test(start_paused = true)]
async fn a_breaker_without_an_answer_does_not_hold_the_batch_up() {
    let bench = Bench::new();
    bench.store.reads_take(|_| Duration::MAX);
    bench.store.claims_take(|claims| {
        let is_breaker = claims[0].id.as_str().contains("breaker");
        Duration::MAX * u32::from(is_breaker)
    });
    let consumer = outage(&bench, &Sqs::default());
    assert_eq!(bench.deliver(&consumer, ["1"]).await, ["m-0"]);
    assert_ended(&bench);
    assert_eq!(bench.elapsed(), bench.timeout - MARGIN);
    let lines = bench.log.take("sqs_once::breaker");
    let only_here = "the breaker opens in this environment only";
    let line = lines.iter().find(|line| line["message"] == only_here);
    assert_contains!(line.unwrap()["error"], "in time");
    bench.assert_ended("failed: unavailable", "unavailable: payments: down");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_tell_its_settings_does_not_hold_the_batch_up() {
    let sqs = Sqs::always(Turn::Hang);
    let bench = Bench::with_timeout(3 * SECOND);
    let consumer = outage(&bench, &sqs);
    assert_eq!(bench.deliver(&consumer, ["1"]).await, ["m-0"]);
    assert_ended(&bench);
    let lines = bench.log.take("sqs_once::failed::visibility");
    let [line] = lines.try_into().unwrap();
    assert_contains!(line["error"], "SQS did not answer in time");
    bench.assert_ended("failed: unavailable", "unavailable: payments: down");
}
