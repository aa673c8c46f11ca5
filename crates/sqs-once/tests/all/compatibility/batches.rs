//! Batches: the records that fail, and the effect of one record on the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::hook::RecordEnd;
use sqs_once::policy::FifoFailure;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{EventError, HandlerError, Remaining, consumer};
use tokio::time::sleep;

use crate::compatibility::{bench, grouped, one, order, orders, told};

/// All records succeed: the answer is an empty list.
#[tokio::test(start_paused = true)]
async fn a_batch_that_succeeds_is_answered_with_an_empty_list() {
    let (bench, effects) = bench();
    let answer = bench.run(Event::new([&order("a"), &order("b")])).await;
    assert!(answer.retried().is_empty());
    assert_eq!(effects.take(), ["a", "b"]);
}

/// Some records fail: the answer lists exactly these, in the batch's order.
#[tokio::test(start_paused = true)]
async fn exactly_the_failed_records_are_named_in_the_batchs_order() {
    let (bench, _) = bench();
    let event = Event::new([
        &told("a", "take a second"),
        &told("b", "give up"),
        &order("c"),
        &told("d", "fail"),
        &told("e", "panic"),
    ]);
    let answer = bench.run(&event).await;
    answer.assert_retried(["m-2", "m-4", "m-5"]);
}

/// All records fail: the answer lists all of them. By default, Powertools raises in this case. Here that is an option,
/// since Lambda polls a queue more slowly while its function's invocations fail.
#[tokio::test(start_paused = true)]
async fn when_all_fail_all_are_named_or_by_option_the_invocation_fails() {
    let (orders, _) = orders();
    let event = Event::new([&told("a", "fail"), &told("b", "fail")]);
    let bench = Bench::new(orders.clone());
    bench.run(&event).await.assert_retried(["m-1", "m-2"]);

    let raising = Bench::new(orders.raise_on_total_failure(true));
    let error = raising.try_run(&event).await.unwrap_err();
    assert!(matches!(
        error,
        EventError::EveryRecordFailed { records: 2 }
    ));
}

fn two_groups() -> Event {
    Event::new([
        grouped("a", &told("a1", "fail")),
        grouped("b", &order("b1")),
        grouped("a", &order("a2")),
        grouped("b", &order("b2")),
    ])
}

/// FIFO, by option: after a failure, the answer returns every record that has not started, in any group. Powertools
/// does this by default.
#[tokio::test(start_paused = true)]
async fn a_strict_fifo_consumer_returns_the_rest_of_the_batch() {
    let (orders, effects) = orders();
    let strict = orders.fifo(FifoFailure::ReturnBatch).concurrency(1);
    Bench::new(strict)
        .run(two_groups())
        .await
        .assert_retried(["m-1", "m-2", "m-3", "m-4"]);
    assert_eq!(effects.take(), ["a1"]);
}

/// FIFO, by default: after a failure, the answer returns the rest of the failed record's group, and other groups
/// continue. This also holds if the first record of the group failed. SQS promises order only within a group.
#[tokio::test(start_paused = true)]
async fn a_fifo_failure_returns_the_rest_of_its_group_and_other_groups_go_on() {
    let (bench, effects) = bench();
    bench
        .run(two_groups())
        .await
        .assert_retried(["m-1", "m-3"])
        .assert_reason("m-3", "an earlier record of its message group failed");
    assert_eq!(effects.take(), ["a1", "b1", "b2"]);
}

/// A body that does not parse has the same effect.
#[tokio::test(start_paused = true)]
async fn a_fifo_body_that_does_not_parse_returns_the_rest_of_its_group() {
    let (bench, effects) = bench();
    let event = Event::new([
        Record::text("{").fifo("a"),
        grouped("b", &order("b1")),
        grouped("a", &order("a2")),
    ]);
    bench
        .run(event)
        .await
        .assert_terminal("m-1")
        .assert_retried(["m-1", "m-3"]);
    assert_eq!(effects.take(), ["b1"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_parse_fails_its_own_record_only() {
    let (bench, _) = bench();
    let event = Event::new([
        Record::text("no JSON"),
        Record::json(&order("a")),
        Record::default(),
    ]);
    bench
        .run(event)
        .await
        .assert_terminal("m-1")
        .assert_processed("m-2")
        .assert_terminal("m-3")
        .assert_retried(["m-1", "m-3"]);
}

#[tokio::test(start_paused = true)]
async fn records_that_run_at_the_same_time_fail_for_themselves() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let counting = {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        consumer::<Value>()
            .key(|order: &Value| order["id"].as_u64())
            .concurrency(5)
            .handler(move |order: Value| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                async move {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_secs(1)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    match order["id"].as_u64() {
                        Some(3 | 7) => Err("no luck"),
                        _ => Ok(()),
                    }
                }
            })
    };
    let orders: Vec<_> = (1..=10).map(|id| json!({ "id": id })).collect();
    Bench::new(counting)
        .run(Event::new(&orders))
        .await
        .assert_retried(["m-3", "m-7"]);
    assert_eq!(most.load(Ordering::SeqCst), 5);
}

/// The consumer rejects an event that contains a record without a message ID, before any handler runs. It could not
/// report that record, so Lambda would delete it.
#[tokio::test(start_paused = true)]
async fn a_malformed_event_is_refused_before_anything_runs() {
    let (bench, effects) = bench();
    let event = r#"{ "Records": [
        { "messageId": "m-1", "body": "{\"id\": \"a\"}" },
        { "body": "{\"id\": \"b\"}" }
    ] }"#;
    let refused = bench.try_run(Event::from_json(event)).await;
    assert!(matches!(refused, Err(EventError::NoMessageId { index: 1 })));
    assert!(effects.take().is_empty());
}

/// The handler can read how long it may still run.
///
/// Peers pass Lambda's context to the handler. Its deadline would be too late: the consumer cancels the handler
/// earlier, so that the answer is in time.
#[tokio::test(start_paused = true)]
async fn the_invocations_deadline_reaches_the_handler() {
    let told = consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .handler(
            async |_: Value, remaining: Remaining| -> Result<(), HandlerError> {
                Err(format!("{:?} left", remaining.duration()).into())
            },
        );
    let bench = Bench::new(told).timeout(Duration::from_secs(60));
    let answer = bench.run(one("a")).await;
    answer.assert_reason("m-1", "59s left");
}

async fn refuse(_: RecordEnd) -> Result<(), HandlerError> {
    Err("the mail server is away".into())
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_that_fails_changes_nothing() {
    let (orders, _) = orders();
    let bench = Bench::new(orders.on_failure(refuse));
    bench
        .run(Event::new([&told("a", "fail"), &order("b")]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "the card was declined")
        .assert_processed("m-2")
        .assert_retried(["m-1"]);
}

/// A success hook that fails makes its record fail, and no other. The effect is recorded, so the next delivery calls
/// the hook for duplicates and not the handler.
#[tokio::test(start_paused = true)]
async fn a_success_hook_that_fails_fails_that_record() {
    let (orders, effects) = orders();
    let bench = Bench::new(orders.on_success(|end: RecordEnd| async move {
        match end.message().id() {
            "m-1" => Err("the mail server is away".into()),
            _ => Ok(()),
        }
    }));
    let event = Event::new([&order("a"), &order("b")]);
    bench
        .run(&event)
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "the mail server is away")
        .assert_processed("m-2")
        .assert_retried(["m-1"]);
    bench.run(&event).await.assert_duplicate("m-1");
    assert_eq!(effects.take(), ["a", "b"]);
}

/// Concurrent invocations in one process stay separate, even if their message IDs are equal.
#[tokio::test(start_paused = true)]
async fn invocations_at_the_same_time_do_not_mix() {
    let (bench, _) = bench();
    let failing = Event::new([&told("a", "fail"), &told("b", "take a second")]);
    let fine = Event::new([&told("c", "take a second"), &order("d")]);
    let (failing, fine) = tokio::join!(bench.run(&failing), bench.run(&fine));
    failing.assert_failed("m-1").assert_processed("m-2");
    fine.assert_all_acknowledged();
}

/// A result that never arrives counts as a failure and delays no other record.
#[tokio::test(start_paused = true)]
async fn a_result_that_never_came_counts_as_a_failure() {
    let (bench, _) = bench();
    bench
        .run(Event::new([&told("a", "hang"), &order("b")]))
        .await
        .assert_failed("m-1")
        .assert_processed("m-2")
        .assert_retried(["m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_handler_fails_its_own_record_only() {
    let (bench, _) = bench();
    bench
        .run(Event::new([&told("a", "panic"), &order("b")]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "what a surprise")
        .assert_processed("m-2");
}

/// Cancelled work counts as a failure.
#[tokio::test(start_paused = true)]
async fn cancelled_work_counts_as_a_failure() {
    let (orders, _) = orders();
    let bench = Bench::new(orders.record_timeout(Duration::from_millis(500)));
    bench
        .run(Event::new([&told("a", "take a second"), &order("b")]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "cancelled")
        .assert_processed("m-2");
}

/// A warm process carries neither failures nor work into the next invocation.
#[tokio::test(start_paused = true)]
async fn nothing_leaks_into_the_next_invocation() {
    let late = Arc::new(AtomicUsize::new(0));
    let slow = {
        let late = Arc::clone(&late);
        consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .handler(move |order: Value| {
                let late = Arc::clone(&late);
                async move {
                    if order["id"] == "slow" {
                        sleep(Duration::from_secs(40)).await;
                        late.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
    };
    let bench = Bench::new(slow);
    let event = Event::new([Record::json(&order("slow")), Record::text("{")]);
    bench.run(&event).await.assert_retried(["m-1", "m-2"]);
    bench.run(one("a")).await.assert_all_acknowledged();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(late.load(Ordering::SeqCst), 0);
}
