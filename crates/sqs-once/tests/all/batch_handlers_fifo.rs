//! Batch handlers on FIFO queues: the records of a message group in a call, and records that overtook another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, Order, event, grouped, outcomes};
use serde_json::{Value, json};
use sqs_once::hook::RecordEnd;
use sqs_once::policy::{AfterDeadLetter, FifoFailure};
use sqs_once::time::Timestamp;
use sqs_once::{Batch, Consumer, HandlerError, consumer};
use tokio::time::sleep;

const DLQ: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-dlq.fifo";

type Calls = Arc<Mutex<Vec<Vec<String>>>>;

/// Records its calls. Orders named `bad-…` fail.
fn noting(bench: &Bench) -> (Consumer, Calls) {
    let calls = Calls::default();
    let noting = {
        let calls = Arc::clone(&calls);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .batch_handler(move |orders: Batch<Order>| {
                let ids = orders.payloads().map(|order| order.id.clone());
                calls.lock().unwrap().push(ids.collect());
                async move {
                    sleep(Duration::from_secs(2)).await;
                    let mut outcome = orders.outcome();
                    for record in &orders {
                        match record.payload().id.starts_with("bad") {
                            true => outcome.failed(record, "no luck"),
                            false => outcome.succeeded(record),
                        }
                    }
                    outcome
                }
            })
    };
    (bench.consumer(noting), calls)
}

fn poison(group: &str) -> Value {
    let mut record = grouped(group, "");
    record["body"] = json!("{");
    record
}

#[tokio::test(start_paused = true)]
async fn a_group_is_claimed_at_once_and_handed_over_in_its_order() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let ids = ["a1", "b1", "a2", "c1", "b2", "a3"];
    let records = ids.map(|id| grouped(&id[..1], id));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(*calls.lock().unwrap(), [ids]);
    assert_eq!(bench.store.take_calls(), [("claim", 6), ("settle", 6)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_behind_a_record_of_its_group_that_is_unusable() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let records = [
        grouped("a", "a1"),
        poison("a"),
        grouped("b", "b1"),
        grouped("a", "a3"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-1", "m-3"]);
    assert_eq!(*calls.lock().unwrap(), [["a1", "b1"]]);
    let released = bench.store.item("a3").unwrap();
    assert_eq!(released.lease_until, Some(Timestamp::default()));
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_behind_a_record_of_its_group_that_is_in_progress_elsewhere() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let first = bench.invoke(&consumer, event([grouped("a", "a1")]));
    let second = async {
        sleep(Duration::from_secs(1)).await;
        let records = [grouped("a", "a1"), grouped("b", "b1"), grouped("a", "a2")];
        bench.invoke(&consumer, event(records)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_empty());
    assert_eq!(second, ["m-0", "m-2"]);
    assert_eq!(*calls.lock().unwrap(), [["a1"], ["b1"]]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_ahead_lets_its_group_go_on() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    bench.invoke(&consumer, event([grouped("a", "a1")])).await;
    let records = [grouped("a", "a1"), grouped("a", "a2")];
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(calls.lock().unwrap()[1], ["a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_whose_hook_fails_stops_its_group() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    bench.invoke(&consumer, event([grouped("a", "a1")])).await;
    let consumer = consumer.on_duplicate(async |_: RecordEnd| {
        sleep(Duration::from_secs(1)).await;
        Err(HandlerError::retry("no reply"))
    });
    let records = [grouped("a", "a1"), grouped("a", "a2"), grouped("b", "b1")];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert_eq!(calls.lock().unwrap()[1], ["b1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_that_hangs_holds_up_no_call() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.on_failure(async |_: RecordEnd| {
        sleep(Duration::MAX).await;
        Ok(())
    });
    let records = [
        poison("a"),
        grouped("b", "b1"),
        grouped("a", "a2"),
        grouped("c", "b1"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-2"]);
    assert_eq!(*calls.lock().unwrap(), [["b1"]]);
}

#[tokio::test(start_paused = true)]
async fn behind_a_dead_letter_a_group_goes_on_by_policy_once_that_has_left_the_queue() {
    for (policy, turn, called) in [
        (AfterDeadLetter::Stop, Turn::Do, vec!["b1"]),
        (AfterDeadLetter::GoOn, Turn::Do, vec!["b1", "a2"]),
        (AfterDeadLetter::GoOn, Turn::Hang, vec!["b1"]),
    ] {
        let bench = Bench::new();
        let (consumer, calls) = noting(&bench);
        let consumer = consumer
            .dead_letter_queue(DLQ)
            .sqs_client(Sqs::always(turn).client())
            .after_dead_letter(policy);
        let records = [poison("a"), grouped("b", "b1"), grouped("a", "a2")];
        bench.invoke(&consumer, event(records)).await;
        assert_eq!(*calls.lock().unwrap(), [called]);
    }
}

#[tokio::test(start_paused = true)]
async fn strict_batches_are_returned_whole_when_one_record_can_not_run() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.fifo(FifoFailure::ReturnBatch);
    let records = [grouped("a", "a1"), poison("b"), grouped("c", "c1")];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2"]);
    assert!(calls.lock().unwrap().is_empty());
    let released = bench.store.item("a1").unwrap();
    assert_eq!(released.lease_until, Some(Timestamp::default()));
}

#[tokio::test(start_paused = true)]
async fn what_succeeded_behind_a_failure_is_done_and_the_log_warns_of_it() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let records = [
        grouped("a", "a1"),
        grouped("a", "bad-2"),
        grouped("b", "b1"),
        grouped("a", "a3"),
    ];
    let batch = event(records);
    assert_eq!(bench.invoke(&consumer, batch.clone()).await, ["m-1"]);
    let lines = bench.log.take("sqs_once::record");
    let warned = lines.iter().filter(|line| {
        line["level"] == "WARN" && line["outcome"] == "processed" && line["message_id"] == "m-3"
    });
    let reasons: Vec<_> = warned.map(|line| line["reason"].as_str()).collect();
    assert_eq!(
        reasons,
        ["it succeeded behind a record of its message group that failed"]
    );
    assert_eq!(
        lines.iter().filter(|line| line["level"] == "WARN").count(),
        2
    );

    // The retry of the earlier record does not repeat its effect.
    bench.invoke(&consumer, batch).await;
    assert_eq!(calls.lock().unwrap()[1], ["bad-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_two_groups_is_handed_over_once_and_stops_both_when_it_can_not_run() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let records = [
        poison("a"),
        grouped("a", "k"),
        grouped("b", "k"),
        grouped("b", "b2"),
        grouped("c", "c1"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3"]);
    assert_eq!(*calls.lock().unwrap(), [["c1"]]);
    assert_eq!(
        bench.outcomes(),
        outcomes([
            ("m-0", "terminal"),
            ("m-1", "failed"),
            ("m-2", "failed"),
            ("m-3", "failed"),
            ("m-4", "processed")
        ])
    );
}
