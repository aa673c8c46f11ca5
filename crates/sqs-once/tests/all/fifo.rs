//! Order: message groups of FIFO queues.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, body, event, grouped, order, outcomes};
use serde_json::json;
use sqs_once::policy::FifoFailure;
use sqs_once::time::Timestamp;
use sqs_once::{Consumer, HandlerError, consumer};
use tokio::time::sleep;

type Seen = Arc<Mutex<Vec<String>>>;

/// Records when each order starts and ends. Orders named `bad-…` fail.
fn slow(bench: &Bench) -> (Consumer, Seen) {
    let seen = Seen::default();
    let noting = {
        let seen = Arc::clone(&seen);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |order: Order| {
                let seen = Arc::clone(&seen);
                async move {
                    seen.lock().unwrap().push(format!("+{}", order.id));
                    sleep(Duration::from_millis(10)).await;
                    seen.lock().unwrap().push(format!("-{}", order.id));
                    if order.id.starts_with("bad") {
                        return Err(HandlerError::retry("no luck"));
                    }
                    Ok(())
                }
            })
    };
    (bench.consumer(noting), seen)
}

#[tokio::test(start_paused = true)]
async fn groups_run_side_by_side_and_each_in_order() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    let records = ["a1", "b1", "a2", "c1", "b2", "a3"].map(|id| grouped(&id[..1], id));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());

    let seen = seen.lock().unwrap().clone();
    assert!(
        seen.iter().take(3).all(|step| step.starts_with('+')),
        "{seen:?}"
    );
    let mut groups: HashMap<char, Vec<String>> = HashMap::new();
    for step in seen {
        groups
            .entry(step.chars().nth(1).unwrap())
            .or_default()
            .push(step);
    }
    assert_eq!(groups[&'a'], ["+a1", "-a1", "+a2", "-a2", "+a3", "-a3"]);
    assert_eq!(groups[&'b'], ["+b1", "-b1", "+b2", "-b2"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_the_rest_of_that_group_is_returned_unclaimed_and_others_go_on() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    let records = [
        grouped("a", "bad-1"),
        grouped("b", "b1"),
        grouped("a", "a2"),
        grouped("a", "a3"),
        grouped("b", "b2"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-2", "m-3"]);
    assert!(!seen.lock().unwrap().iter().any(|step| step.ends_with("a2")));
    assert!(bench.store.item("a2").is_none());
    assert!(bench.store.item("b2").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_parse_stops_its_group_too() {
    let bench = Bench::new();
    let (consumer, _) = slow(&bench);
    let mut poison = body("{");
    poison["attributes"] = json!({ "MessageGroupId": "a" });
    poison["eventSourceARN"] = json!(crate::support::FIFO);
    let records = [poison, grouped("b", "b1"), grouped("a", "a2")];
    assert_eq!(
        bench.invoke(&consumer, event(records)).await,
        ["m-0", "m-2"]
    );
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "terminal"), ("m-1", "processed"), ("m-2", "failed")])
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_blocks_its_group() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    let first = bench.invoke(&consumer, event([grouped("a", "a1")]));
    let second = async {
        while seen.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let records = [grouped("a", "a1"), grouped("a", "a2"), grouped("b", "b1")];
        bench.invoke(&consumer, event(records)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_empty());
    assert_eq!(second, ["m-0", "m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_its_own_group_ends_as_the_record_before_it_did() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    let records = ["a1", "a1", "bad-1", "bad-1"].map(|id| grouped("a", id));
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-2", "m-3"]);
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen, ["+a1", "-a1", "+bad-1", "-bad-1"]);
    assert_eq!(
        bench.outcomes()[..2],
        outcomes([("m-0", "processed"), ("m-1", "duplicate")])
    );
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_another_group_ends_with_the_record_it_repeats() {
    let bench = Bench::new();
    let (consumer, _) = slow(&bench);
    let records = [
        grouped("a", "k1"),
        grouped("b", "k1"),
        grouped("b", "k2"),
        grouped("a", "k2"),
        grouped("c", "bad-1"),
        grouped("d", "bad-1"),
        grouped("d", "d2"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-4", "m-5", "m-6"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_group_waits_until_the_one_before_is_recorded() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    bench
        .store
        .fail("settle", sqs_once::store::StoreErrorKind::Other, 1);
    let records = [grouped("a", "a1"), grouped("a", "a2")];
    assert_eq!(
        bench.invoke(&consumer, event(records)).await,
        ["m-0", "m-1"]
    );
    assert_eq!(*seen.lock().unwrap(), ["+a1", "-a1"]);
}

#[tokio::test(start_paused = true)]
async fn a_standard_queue_with_message_groups_keeps_no_order() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    let records = ["a1", "bad-1", "a3"].map(|id| {
        let mut record = order(id);
        record["attributes"] = json!({ "MessageGroupId": "a" });
        record
    });
    assert_eq!(bench.invoke(&consumer, event(records)).await, ["m-1"]);
    assert_eq!(seen.lock().unwrap()[..3], ["+a1", "+bad-1", "+a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_strict_consumer_returns_the_rest_of_the_whole_batch_after_a_failure() {
    let bench = Bench::new();
    let (consumer, seen) = slow(&bench);
    let consumer = consumer.fifo(FifoFailure::ReturnBatch).concurrency(2);
    let records = [
        grouped("a", "bad-1"),
        grouped("b", "b1"),
        grouped("c", "c1"),
        grouped("b", "b2"),
        grouped("a", "a2"),
    ];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-2", "m-3", "m-4"]);
    assert_eq!(*seen.lock().unwrap(), ["+bad-1", "+b1", "-bad-1", "-b1"]);
    // Keys that were claimed ahead are free again.
    let claimed = bench.store.item("c1").unwrap();
    assert_eq!(claimed.lease_until, Some(Timestamp::default()));
    assert!(bench.store.item("a2").is_none());
}
