//! Batch handlers: one call for all records, one outcome for each.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{
    Bench, Calls, Notes, Order, SECOND, Tested, assert_ends_as_said, body, ends, grouped,
    handling_batches, ids, in_groups, keys, noting_batches, order, orders, outcome, set, told,
    with, with_attribute,
};
use serde_json::json;
use sqs_once::body::Opened;
use sqs_once::consumer::Together;
use sqs_once::extract::{Message, RecordEnd, Remaining};
use sqs_once::handler::{IntoOutcome, RecordAfter};
use sqs_once::key::MessageKey;
use sqs_once::policy::MissingKey;
use sqs_once::store::Status;
use sqs_once::telemetry::Outcome;
use sqs_once::{Batch, BatchOutcome, Completion, Handler, HandlerError, IdempotencyToken, State};
use tokio::time::sleep;

fn noting() -> (Tested<Together>, Calls) {
    noting_batches(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn one_call_gets_all_records_in_order_and_they_are_claimed_and_completed_in_groups() {
    let (bench, calls) = noting();
    let ids: Vec<_> = keys(130).collect();
    let bench = bench.with_consumer(|it| it.concurrency(1));
    assert_eq!(bench.run(ids.clone()).await, [""; 0]);
    assert_eq!(calls.ids(), [ids]);
    let requests = bench.store.take_calls();
    for kind in ["claim", "settle"] {
        let requests = requests.iter().filter(|(name, _)| *name == kind);
        let sizes: Vec<_> = requests.map(|(_, entries)| *entries).collect();
        assert_eq!(sizes, [25, 25, 25, 25, 25, 5]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_record_ends_as_the_handler_says_and_one_it_does_not_mention_has_failed() {
    let (bench, calls) = noting();
    assert_ends_as_said(&bench, "processed").await;
    // Failed keys are free again. The handler does not receive successful records a second time.
    let again = ["a", "bad-1", "hopeless-1", "unsaid-1", "b"];
    bench.run(again).await;
    assert_eq!(calls.ids()[1], ["bad-1", "hopeless-1", "unsaid-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_record_tells_all_that_extractors_tell() {
    async fn handler(orders: Batch<Order>) -> Result<BatchOutcome, HandlerError> {
        let record = &orders.records()[1];
        assert_eq!(record.payload().id, "b");
        assert_eq!(record.message().id(), "m-1");
        assert_eq!(record.attempt().receive_count(), 3);
        assert_eq!(record.token(), record.extract::<IdempotencyToken>().await?);
        assert_ne!(record.token(), orders.records()[0].token());
        let message = record.extract::<Arc<Message>>().await?;
        assert_eq!(message.receive_count(), Some(3));
        let remaining = record.extract::<Remaining>().await?;
        assert_eq!(remaining.duration(), 2 * SECOND);
        let mut outcome = orders.outcome();
        for record in orders {
            let key = record.item_id().as_str().to_owned();
            outcome.ended(&record, Completion(key));
            drop(record.into_parts());
        }
        Ok(outcome)
    }
    let bench = handling_batches(handler).with(|it| it.attempt_timeout(2 * SECOND));
    let attributes = json!({ "attributes": { "ApproximateReceiveCount": "3" } });
    let failed = bench.run([order("a"), with(order("b"), attributes)]).await;
    assert_eq!(failed, [""; 0], "{}", bench.log.all());
    let item = bench.store.item("b").unwrap();
    let recorded: String = serde_json::from_str(&item.data.unwrap()).unwrap();
    assert!(recorded.starts_with("test#"), "{recorded}");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_receives_and_returns_shows_no_content_in_its_debug_form() {
    let handler = async |orders: Batch<Order>| {
        let shown = r#"[BatchRecord { message: Message { id: "m-0", .. }, .. }]"#;
        assert_eq!(format!("{orders:?}"), shown);
        orders.all_succeeded()
    };
    let bench = Bench::new().on(orders().call_batch(handler));
    assert_eq!(bench.run(["canary"]).await, [""; 0]);
    let done = Completion("canary").into_outcome().unwrap();
    let shown = "Done { has_data: true, writes: None, left_out: None }";
    assert_eq!(format!("{done:?}"), shown);
    let error = HandlerError::terminal("no use");
    let shown = r#"HandlerError { disposition: Terminal, source: "no use" }"#;
    assert_eq!(format!("{error:?}"), shown);
    let opened = Opened::new("canary");
    assert_eq!(format!("{opened:?}"), "Opened { ignored: None, .. }");
}

#[tokio::test(start_paused = true)]
async fn the_batchs_own_extractors_are_the_state_and_the_time_that_is_left() {
    async fn handler(
        orders: Batch<Order>,
        State(limit): State<usize>,
        remaining: Remaining,
    ) -> Result<BatchOutcome, HandlerError> {
        assert_eq!(remaining.duration(), 29 * SECOND);
        let mut outcome = orders.outcome();
        for record in orders.records().iter().take(limit) {
            outcome.succeeded(record);
        }
        Ok(outcome)
    }
    let bench = Bench::new().on(orders().state(2).call_batch(handler));
    assert_eq!(bench.run(["a", "b", "c"]).await, ["m-2"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_or_a_panic_ends_every_record_and_frees_their_keys() {
    let bench = handling_batches(async |orders: Batch<Order>| {
        let error = match orders.records()[0].payload().id.as_str() {
            "never" => HandlerError::terminal("no hope"),
            "panic" => panic!("no luck"),
            _ => HandlerError::retry("the database is down"),
        };
        Err::<BatchOutcome, _>(error)
    });
    for (first, outcome) in [("a", "failed"), ("never", "terminal"), ("panic", "failed")] {
        assert_eq!(bench.run([first, "b"]).await, ["m-0", "m-1"]);
        assert_eq!(bench.outcomes(), [outcome; 2].join(" "), "{first}");
        assert!(bench.store.is_released(first) && bench.store.is_released("b"));
    }
}

#[tokio::test(start_paused = true)]
async fn duplicates_and_unusable_records_never_reach_the_handler() {
    let (bench, calls) = noting();
    bench.run(["a"]).await;
    bench.outcomes();
    let batch = [order("a"), body("{"), order("b"), order(""), order("c")];
    assert_eq!(bench.run(batch).await, ["m-1", "m-3"]);
    let outcomes = "duplicate terminal processed terminal processed";
    assert_eq!(bench.outcomes(), outcomes);
    assert_eq!(calls.ids()[1], ["b", "c"]);
    // Without a record to run there is no call.
    let batch = [order("a"), body("{"), order("b")];
    assert_eq!(bench.run(batch).await, ["m-1"]);
    assert_eq!(bench.run([""; 0]).await, [""; 0]);
    assert_eq!(calls.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_takes_part_where_the_policy_lets_it() {
    let (calls, notes) = Notes::pair();
    let noting = Handler::json::<Order>()
        .key(MessageKey::attribute("order-id"))
        .call_batch(move |orders: Batch<Order>| {
            notes.add(ids(&orders));
            ready(outcome(&orders))
        })
        .missing_key(MissingKey::ProcessUnprotected);
    let bench = Bench::new().on(noting);
    let keyed = with_attribute(order("b"), "order-id", "b");
    let failed = bench.run([order("a"), keyed, order("bad-1")]).await;
    assert_eq!(failed, ["m-2"]);
    assert_eq!(calls.take(), [["a", "b", "bad-1"]]);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_or_the_attempt_timeout_every_record_fails_and_its_claim_is_left_to_lapse()
{
    for attempt_timeout in [29 * SECOND, 5 * SECOND] {
        let (bench, _) = noting_batches(Duration::MAX);
        let bench = bench.with(|it| it.attempt_timeout(attempt_timeout));
        let lease_until = bench.deadline() + 3 * SECOND;
        assert_eq!(bench.run(["a", "b"]).await, ["m-0", "m-1"]);
        assert_eq!(bench.elapsed(), attempt_timeout);
        for id in ["a", "b"] {
            let item = bench.store.item(id).unwrap();
            assert_eq!(item.status, Status::InProgress);
            assert_eq!(item.lease_until, Some(lease_until));
        }
        bench.outcomes();
        bench.run(["a", "b"]).await;
        assert_eq!(bench.outcomes(), "in_progress in_progress");
    }
}

#[tokio::test(start_paused = true)]
async fn the_call_waits_for_records_in_progress_elsewhere_as_long_as_the_policy_says() {
    for (wait, elsewhere, failed, begins) in [
        (None, 10, vec!["m-0"], 1_000),
        (Some(5 * SECOND), 10, vec!["m-0"], 6_000),
        (Some(15 * SECOND), 10, vec![], 10_000),
        // Half of the time is kept for the call.
        (Some(Duration::MAX), 28, vec!["m-0"], 1_000 + 29_000 / 2),
    ] {
        let (bench, calls) = noting();
        let slow = bench.handling(move |_: Order| sleep(elsewhere * SECOND));
        let bench = bench.with(|it| set(it, wait, Handler::in_progress_wait));
        let waiting = async {
            sleep(SECOND).await;
            bench.run(["a", "b"]).await
        };
        let (first, second) = tokio::join!(bench.deliver(&slow, ["a"]), waiting);
        assert_eq!(first, [""; 0]);
        assert_eq!(second, failed);
        let [(begun, ids)] = calls.take().try_into().unwrap();
        assert_eq!(ids, ["b"]);
        // The other worker's completion is noticed within a second.
        let begins = Duration::from_millis(begins);
        assert!(begun >= begins && begun < begins + SECOND, "{begun:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_store_could_not_claim_in_half_of_the_time_goes_back_and_the_rest_runs() {
    let (bench, calls) = noting();
    bench.store.claims_take(|_| 5 * SECOND);
    // Eight concurrent requests of 25 claims, answered at 5 s and 10 s of 29 s. The answers at 15 s are too late.
    let failed = bench.run(keys(1000)).await;
    assert_eq!(failed.len(), 600);
    assert_eq!(calls.ids()[0].len(), 400);
}

#[tokio::test(start_paused = true)]
async fn record_after_recognises_what_was_completed() {
    let (calls, notes) = Notes::pair();
    let bench = handling_batches(RecordAfter(move |orders: Batch<Order>| {
        notes.add(ids(&orders));
        ready(outcome(&orders))
    }));
    for _ in 0..2 {
        assert_eq!(bench.run(["a", "bad-1", "b"]).await, ["m-1"]);
    }
    assert_eq!(calls.take(), [vec!["a", "bad-1", "b"], vec!["bad-1"]]);
}

#[tokio::test(start_paused = true)]
async fn hooks_are_called_for_each_record_by_itself() {
    let (ended, notes) = Notes::pair();
    let note = notes.of(|end: RecordEnd| format!("{} {}", end.message().id(), end.outcome()));
    let bench = noting()
        .0
        .with(|it| it.on_done(note.clone()).on_failure(note));
    bench.run(["a", "bad-1", "b"]).await;
    let expected = ["m-0 processed", "m-1 failed", "m-2 processed"];
    assert_eq!(ended.take_sorted(), expected);
}

#[tokio::test(start_paused = true)]
async fn neither_an_outcome_nor_a_record_of_another_batch_is_a_success_of_this_one() {
    let of_another = "the batch handler returned the outcome of another batch";
    let unsaid = "the batch handler did not say that it succeeded";
    for (keeps_outcome, reason) in [(true, of_another), (false, unsaid)] {
        let kept: Arc<Mutex<Vec<Batch<Order>>>> = Arc::default();
        let bench = handling_batches(move |orders: Batch<Order>| {
            let mut outcome = orders.outcome();
            let mut kept = kept.lock().unwrap();
            kept.push(orders);
            if keeps_outcome {
                outcome = kept[0].outcome();
            }
            for record in &kept[0] {
                outcome.succeeded(record);
            }
            async move { outcome }
        });
        assert_eq!(bench.run(["a"]).await, [""; 0]);
        bench.lines();
        assert_eq!(bench.run(["b"]).await, ["m-0"]);
        bench.assert_ended("failed: handler-error", reason);
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_record_that_is_said_twice_the_first_failure_stands() {
    let bench = handling_batches(async |orders: Batch<Order>| {
        let mut outcome = orders.outcome();
        outcome.failed(&orders.records()[0], "first");
        outcome.succeeded(&orders.records()[0]);
        outcome.succeeded(&orders.records()[1]);
        outcome.failed(&orders.records()[1], "first");
        outcome.failed(&orders.records()[1], HandlerError::terminal("second"));
        outcome.succeeded(&orders.records()[2]);
        outcome.ended(&orders.records()[2], Completion("last"));
        outcome
    });
    assert_eq!(bench.run(["a", "b", "c"]).await, ["m-0", "m-1"]);
    let expected = [("failed", "first"), ("failed", "first"), ("processed", "")];
    assert_eq!(told(&ends(bench.lines())), expected);
    assert_eq!(*bench.store.item("c").unwrap().data.unwrap(), *"\"last\"");
}

/// A batch handler after a slow request: records that are ready run with half of the batch's time, and the rest fail. One
/// claim request takes this time. All requests but the last carry 25 claims.
fn slow_claim(is_last: bool, time: Duration) -> (Tested<Together>, Calls) {
    let (bench, calls) = noting_batches(Duration::ZERO);
    bench.store.claims_take(move |claims| {
        let is_slow = (claims.len() < 25) == is_last;
        time * u32::from(is_slow)
    });
    (bench, calls)
}

/// Half of 30 s, minus the deadline margin of 1 s.
const HALF: Duration = Duration::from_millis(14_500);

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_holds_the_others_up_for_half_of_the_time_and_a_late_one_is_released()
 {
    for time in [20 * SECOND, Duration::MAX] {
        let (bench, calls) = slow_claim(true, time);
        assert_eq!(bench.run(keys(26)).await, ["m-25"]);
        let [(begun, ids)] = calls.take().try_into().unwrap();
        assert_eq!((begun, ids.len()), (HALF, 25));
        let is_answered = bench.store.item("k25").is_some();
        assert_eq!(is_answered, time < Duration::MAX);
        assert!(!is_answered || bench.store.is_released("k25"));
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_group_nothing_runs_behind_a_claim_that_is_not_answered() {
    let (bench, calls) = slow_claim(false, Duration::MAX);
    let group = keys(25).map(|id| grouped("a", &id));
    let failed = bench.run(group.chain([grouped("a", "behind"), grouped("b", "b1")]));
    let group: Vec<_> = (0..26).map(|at| format!("m-{at}")).collect();
    assert_eq!(failed.await, group);
    assert_eq!(calls.take(), [(HALF, vec!["b1".to_owned()])]);
    assert!(bench.store.is_released("behind"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_decides_too_late_stops_its_own_group_alone() {
    let (bench, calls) = noting_batches(Duration::ZERO);
    bench.run(in_groups("a/a1")).await;
    bench.outcomes();
    let bench = bench.with(|it| {
        it.on_done(async |end: RecordEnd| {
            if end.outcome() == Outcome::Duplicate {
                sleep(20 * SECOND).await;
            }
            Ok(())
        })
    });
    assert_eq!(bench.run(in_groups("a/a1 a/a2 b/b1")).await, ["m-1"]);
    assert_eq!(calls.take()[1], (HALF, vec!["b1".to_owned()]));
    assert_eq!(bench.outcomes(), "duplicate failed processed");
    assert!(bench.store.is_released("a2"));
}
