//! Order: message groups of FIFO queues.

use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    DLQ, Notes, Order, SECOND, Seen, Tested, assert_contains, codes, grouped, handling, in_groups,
    noting, order, set, with,
};
use serde_json::json;
use sqs_once::Handler;
use sqs_once::store::{Status, StoreErrorKind};

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
    let lines = bench.lines();
    let earlier = "failed: earlier-message";
    let expected = format!("failed: handler-error, processed, {earlier}, {earlier}, processed");
    assert_eq!(codes(&lines), expected);
    let expected = "an earlier message of its group failed";
    assert_contains!(lines[2]["reason"], expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_blocks_its_group() {
    let (bench, steps) = slow();
    bench.foreign("a1", Status::InProgress, 60 * SECOND);
    let records = in_groups("a/a1 a/a2 b/b1");
    assert_eq!(bench.run(records).await, ["m-0", "m-1"]);
    assert_eq!(steps.take(), ["+b1", "-b1"]);
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

/// Ten messages of a group, with the `first` ones in front.
fn ten(first: &[&str]) -> Vec<String> {
    let others = (first.len()..10).map(|at| format!("o-{at}"));
    first
        .iter()
        .map(|id| (*id).to_owned())
        .chain(others)
        .collect()
}

/// Delivers a group until SQS has delivered each message three times: what returns comes back together. Returns the
/// messages that SQS moves itself then.
async fn deliver_thrice(bench: &Tested, mut left: Vec<String>) -> Vec<String> {
    for count in ["1", "2", "3"] {
        let records = left.iter().map(|id| {
            let mut record = with(grouped("g", id), json!({ "messageId": id }));
            record["attributes"]["ApproximateReceiveCount"] = count.into();
            record
        });
        left = bench.run(records.collect::<Vec<_>>()).await;
        // The visibility timeout.
        bench.clock.advance(60 * SECOND);
    }
    left
}

/// A queue that delivers three times, and a consumer that notes its orders, with these settings of the handler.
fn thrice(
    has_dead_letters: bool,
    settings: impl FnOnce(Handler) -> Handler,
) -> (Tested, Seen, Sqs) {
    let sqs = Sqs::delivering(3);
    let (bench, seen) = noting();
    let bench = bench.with(settings);
    let queue = match has_dead_letters {
        true => sqs.queue().dead_letter_queue(format!("{DLQ}.fifo")),
        false => sqs.queue(),
    };
    (bench.with_consumer(|it| it.queue(queue)), seen, sqs)
}

#[tokio::test(start_paused = true)]
async fn each_message_behind_one_that_always_fails_is_tried_before_its_last_delivery_is_over() {
    for (first, reasons) in [
        (&["bad-1"][..], &["no luck"][..]),
        (
            &["bad-1", "hopeless-2", "panic-3"],
            &["no luck", "no use", "what a surprise"],
        ),
        (&["hopeless-1", "hopeless-2"], &["no use", "no use"]),
    ] {
        for has_dead_letters in [true, false] {
            let (bench, seen, sqs) = thrice(has_dead_letters, |it| it);
            let left = deliver_thrice(&bench, ten(first)).await;
            let case = format!("{first:?} {has_dead_letters}");
            let mut tried = seen.take();
            tried.dedup();
            assert_eq!(tried, ten(first), "{case}");
            if has_dead_letters {
                assert!(left.is_empty(), "{case}");
                for (said, expected) in sqs.reasons().iter().zip(reasons) {
                    assert_contains!(said, expected);
                }
                assert_eq!(sqs.reasons().len(), reasons.len(), "{case}");
            } else {
                assert_eq!(left, first, "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_behind_a_message_that_another_worker_has_is_tried_on_its_last_delivery() {
    let (bench, seen, sqs) = thrice(true, |it| it);
    bench.foreign("o-0", Status::InProgress, 3600 * SECOND);
    assert!(deliver_thrice(&bench, ten(&[])).await.is_empty());
    assert_eq!(seen.take(), ten(&[])[1..]);
    assert_contains!(sqs.reasons()[0], "another worker has its key");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_cancelled_on_its_last_delivery_is_moved_and_costs_the_others_its_time() {
    // With a timeout of its own, it leaves time for the others.
    for (timeout, tried) in [(Some(2 * SECOND), 10), (None, 1)] {
        let timed = |it| set(it, timeout, Handler::attempt_timeout);
        let (bench, seen, sqs) = thrice(true, timed);
        let left = deliver_thrice(&bench, ten(&["slow-0"])).await;
        let mut called = seen.take();
        called.dedup();
        assert_eq!(called.len(), tried, "{timeout:?}");
        assert_eq!(left.len(), 10 - tried, "{timeout:?}");
        assert_eq!(sqs.reasons().len(), 1, "{timeout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_stops_before_the_last_delivery_and_if_its_queue_does_not_say_which_that_is() {
    for sqs in [
        Sqs::delivering(4),
        Sqs::always(Turn::Refuse("AccessDenied")),
    ] {
        let (bench, seen) = noting();
        let bench = bench.with_consumer(|it| it.queue(sqs.queue()));
        let all = ten(&["bad-0"]);
        assert_eq!(deliver_thrice(&bench, all.clone()).await, all);
        assert_eq!(seen.take(), ["bad-0"; 3]);
    }
}
