//! Order: message groups of FIFO queues.

use crate::support::{
    Notes, Order, SECOND, Seen, Tested, assert_contains, handling, in_groups, order, with,
};
use serde_json::json;
use sqs_once::consumer::Fifo;
use sqs_once::store::StoreErrorKind;

/// Notes when each order starts and ends. The orders end as they request.
fn slow() -> (Tested, Seen) {
    let (steps, notes) = Notes::pair();
    let bench = handling(move |order: Order| {
        let notes = notes.clone();
        async move {
            notes.add(format!("+{}", order.id));
            tokio::time::sleep(SECOND / 100).await;
            notes.add(format!("-{}", order.id));
            order.obey().await
        }
    });
    (bench, steps)
}

#[tokio::test(start_paused = true)]
async fn after_a_failure_the_rest_of_that_group_is_returned_unclaimed_and_others_go_on() {
    let (bench, steps) = slow();
    let records = in_groups("a/bad-1 b/b1 a/a2 a/a3 b/b2");
    assert_eq!(bench.run(records).await, ["m-0", "m-2", "m-3"]);
    assert!(!steps.take().iter().any(|step| step.ends_with("a2")));
    assert!(bench.store.item("a2").is_none());
    assert!(bench.store.item("b2").is_some());
    let expected = "an earlier message of its group failed";
    assert_contains!(bench.lines()[2]["reason"], expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_blocks_its_group() {
    let (bench, steps) = slow();
    let second = async {
        while steps.len() == 0 {
            tokio::task::yield_now().await;
        }
        bench.run(in_groups("a/a1 a/a2 b/b1")).await
    };
    let (first, second) = tokio::join!(bench.run(in_groups("a/a1")), second);
    assert_eq!(first, [""; 0]);
    assert_eq!(second, ["m-0", "m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_another_group_ends_with_the_record_it_repeats() {
    let (bench, _) = slow();
    let records = in_groups("a/k1 b/k1 b/k2 a/k2 c/bad-1 d/bad-1 d/d2");
    assert_eq!(bench.run(records).await, ["m-4", "m-5", "m-6"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_group_waits_until_the_one_before_is_completed() {
    let (bench, steps) = slow();
    bench.store.fail("settle", StoreErrorKind::Other, 1);
    assert_eq!(bench.run(in_groups("a/a1 a/a2")).await, ["m-0", "m-1"]);
    assert_eq!(steps.take(), ["+a1", "-a1"]);
}

#[tokio::test(start_paused = true)]
async fn a_standard_queue_with_message_groups_keeps_no_order() {
    let (bench, steps) = slow();
    let group = json!({ "attributes": { "MessageGroupId": "a" } });
    let records = ["a1", "bad-1", "a3"].map(|id| with(order(id), group.clone()));
    assert_eq!(bench.run(records).await, ["m-1"]);
    assert_eq!(steps.take()[..3], ["+a1", "+bad-1", "+a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_strict_consumer_returns_the_rest_of_the_whole_batch_after_a_failure() {
    let (bench, steps) = slow();
    let bench = bench.with_consumer(|it| it.fifo(Fifo::new().return_batch()).concurrency(2));
    let records = in_groups("a/bad-1 b/b1 c/c1 b/b2 a/a2");
    assert_eq!(bench.run(records).await, ["m-0", "m-2", "m-3", "m-4"]);
    assert_eq!(steps.take(), ["+bad-1", "+b1", "-bad-1", "-b1"]);
    // Keys that were claimed ahead are free again.
    assert!(bench.store.is_released("c1"));
    assert!(bench.store.item("a2").is_none());
}
