//! Visibility timeouts of failed messages.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Fixed, SECOND, Tested, grouped, noting, order, set, values, with};
use serde_json::{Value, json};
use sqs_once::policy::{Backoff, Mode};
use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Bench, Event, Operation, Record, TestSettings};
use tokio::time::sleep;

const HOUR: u64 = 60 * 60;
/// The start time of the tests' clocks.
const START_MILLIS: u64 = 1_790_000_000_000;

/// A consumer whose orders end as they request.
fn client(sqs: &Sqs) -> Tested {
    noting().0.with(|it| it.sqs_client(sqs.client()))
}

fn backing_off(sqs: &Sqs) -> Tested {
    let backoff = Backoff::exponential(5 * SECOND, 60 * SECOND);
    client(sqs).with(|it| it.backoff(backoff).random(Fixed(0)))
}

type Setup = fn(&Sqs) -> Tested;

/// The consumers, and whether each has a backoff.
const BOTH: [(Setup, bool); 2] = [(client, false), (backing_off, true)];

/// A record with this receipt handle, on its nth delivery.
fn delivered(mut record: Value, handle: &str, receive_count: u32) -> Value {
    record["receiptHandle"] = json!(handle);
    record["attributes"]["ApproximateReceiveCount"] = json!(receive_count.to_string());
    record["attributes"]["ApproximateFirstReceiveTimestamp"] = json!(START_MILLIS.to_string());
    record
}

/// Failing orders on their first delivery, with the handles `h0`, `h1` and so on.
fn failing(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|at| delivered(order(&format!("bad-{at}")), &format!("h{at}"), 1))
}

/// The entries of each request.
fn entries(sqs: &Sqs) -> Vec<Vec<Value>> {
    let requests = sqs.asked("ChangeMessageVisibilityBatch").into_iter();
    let entries = requests.map(|one| one["Entries"].as_array().unwrap().clone());
    entries.collect()
}

/// The requested visibility timeouts, by receipt handle.
fn asked(sqs: &Sqs) -> BTreeMap<String, u64> {
    let asked = entries(sqs).into_iter().flatten().map(|entry| {
        let handle = entry["ReceiptHandle"].as_str().unwrap().to_owned();
        (handle, entry["VisibilityTimeout"].as_u64().unwrap())
    });
    asked.collect()
}

fn expected<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let expected = expected.map(|(handle, secs)| (handle.to_owned(), secs));
    expected.into()
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_stays_away_longer_with_every_delivery() {
    let sqs = Sqs::default();
    let records = [1, 2, 3, 4, 9].map(|count| {
        let id = format!("bad-{count}");
        delivered(order(&id), &format!("h{count}"), count)
    });
    let good = delivered(order("good"), "h0", 1);
    let records = records.into_iter().chain([good]);
    assert_eq!(backing_off(&sqs).run(records).await.len(), 5);
    let waits = [("h1", 5), ("h2", 10), ("h3", 20), ("h4", 30), ("h9", 30)];
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn the_queues_url_is_known_from_its_arn_and_can_be_set() {
    let by_arn = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
    let own = "https://vpce-1.sqs.eu-central-1.vpce.amazonaws.com/123456789012/orders";
    for (setting, url) in [(None, by_arn), (Some(own), own)] {
        let sqs = Sqs::default();
        let bench = backing_off(&sqs).with(|it| set(it, setting, |it, url| it.queue_url(url)));
        bench.run(failing(1)).await;
        let requests = sqs.asked("ChangeMessageVisibilityBatch");
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0]["QueueUrl"], url);
    }
}

#[tokio::test(start_paused = true)]
async fn the_handlers_wish_is_kept_in_whole_seconds_with_and_without_a_backoff() {
    for (new, with_backoff) in BOTH {
        let sqs = Sqs::default();
        let records = [
            delivered(order("after-7"), "whole", 1),
            delivered(order("after-7.2"), "up", 2),
            delivered(order("after-0"), "at once", 3),
            delivered(order("bad"), "no wish", 1),
        ];
        assert_eq!(new(&sqs).run(records).await.len(), 4);
        let mut waits = expected([("whole", 7), ("up", 8), ("at once", 0)]);
        if with_backoff {
            waits.insert("no wish".to_owned(), 5);
        }
        assert_eq!(asked(&sqs), waits);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_beyond_twelve_hours_from_the_receipt() {
    let sqs = Sqs::default();
    let mut earlier = delivered(order("after-90000"), "earlier", 1);
    let an_hour_ago = START_MILLIS - HOUR * 1000;
    earlier["attributes"]["ApproximateFirstReceiveTimestamp"] = json!(an_hour_ago.to_string());
    let records = [
        delivered(order("after-99999"), "now", 1),
        earlier,
        // SQS does not report when it redelivered the message.
        delivered(order("after-80000"), "again", 2),
        delivered(order("after-1e30"), "never", 1),
    ];
    client(&sqs).run(records).await;
    let waits = [
        ("now", 12 * HOUR - 60),
        ("earlier", 11 * HOUR - 60),
        ("again", 12 * HOUR - 60 - 15 * 60),
        ("never", 12 * HOUR - 60),
    ];
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_batch_counts_towards_the_twelve_hours() {
    let sqs = Sqs::default();
    let mut bench = client(&sqs).with(|it| it.concurrency(1).record_timeout(80 * 60 * SECOND));
    bench.bench.timeout = Duration::from_mins(90);
    let records = [
        delivered(order("slow"), "slow", 2),
        delivered(order("after-80000"), "again", 2),
    ];
    bench.run(records).await;
    let longest = 12 * HOUR - 60 - 15 * 60 - 80 * 60;
    assert_eq!(asked(&sqs)["again"], longest);
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_stays_away_until_that_lease_has_lapsed() {
    for (new, with_backoff) in BOTH {
        let sqs = Sqs::default();
        let bench = new(&sqs);
        let second = async {
            sleep(10 * SECOND).await;
            let again = delivered(order("slow"), "second", 1);
            assert_eq!(bench.run([again]).await, ["m-0"]);
            // The first deadline is 30 s after the start, and the lease ends 3 s later.
            assert_eq!(asked(&sqs), expected([("second", 23)]));
        };
        let slow = delivered(order("slow"), "first", 1);
        let (_, ()) = tokio::join!(bench.run([slow]), second);
        // The handler was cancelled a second before its deadline, and its claim expires.
        assert_eq!(asked(&sqs).get("first"), with_backoff.then_some(&5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_handler_was_cancelled_stays_away_until_its_own_lease_has_lapsed() {
    // The lease ends 3 s after the deadline, 30 s after the start. A record without a claim has no lease.
    for (mode, wait) in [(Mode::ClaimFirst, 32), (Mode::RecordAfter, 5)] {
        let sqs = Sqs::default();
        let bench = backing_off(&sqs).with(|it| it.mode(mode).record_timeout(SECOND));
        let slow = delivered(order("slow"), "h", 1);
        assert_eq!(bench.run([slow]).await, ["m-0"]);
        assert_eq!(asked(&sqs), expected([("h", wait)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_leaves_a_claim_behind_stays_away_until_its_own_lease_has_lapsed() {
    for (operation, kind) in [
        (Operation::Claim, StoreErrorKind::Unanswered),
        (Operation::Complete, StoreErrorKind::Unanswered),
        (Operation::Complete, StoreErrorKind::Throttled),
    ] {
        let backoff = Backoff::exponential(SECOND, SECOND);
        let bench = Bench::new(values().handler(async |_: Value| {}).backoff(backoff));
        bench.store().fail(operation, kind, usize::MAX);
        let event = Event::new([Record::json(&json!({ "id": "a" }))]);
        let answer = bench.run(event).await.assert_failed("m-1").delay("m-1");
        // The batch took nearly all of its time. A lease ends 3 s later.
        assert!(answer.unwrap() >= 3 * SECOND, "{operation:?} {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_record_in_progress_elsewhere_stay_away_as_long() {
    let sqs = Sqs::default();
    let bench = client(&sqs);
    let here = async {
        sleep(10 * SECOND).await;
        let records = [
            delivered(grouped("a", "slow"), "a1", 1),
            delivered(grouped("a", "a2"), "its group", 1),
            delivered(grouped("b", "slow"), "its key", 1),
            delivered(grouped("b", "b2"), "its key's group", 1),
            delivered(grouped("c", "bad"), "another", 1),
        ];
        bench.run(records).await
    };
    let slow = delivered(grouped("a", "slow"), "elsewhere", 1);
    let (_, failed) = tokio::join!(bench.run([slow]), here);
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
    let waits = ["a1", "its group", "its key", "its key's group"].map(|handle| (handle, 23));
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_batch_still_takes_counts() {
    let sqs = Sqs::default();
    let bench = client(&sqs).with(|it| it.record_timeout(10 * SECOND));
    let records = [
        delivered(order("after-3"), "over", 1),
        delivered(order("after-30"), "left", 1),
        delivered(order("slow"), "last", 1),
    ];
    bench.run(records).await;
    assert_eq!(asked(&sqs), expected([("over", 0), ("left", 20)]));
}

#[tokio::test(start_paused = true)]
async fn a_lease_beyond_twelve_hours_keeps_its_record_away_as_long_as_sqs_allows() {
    let sqs = Sqs::default();
    let mut bench = client(&sqs);
    bench.bench.timeout = Duration::from_hours(20);
    let second = async {
        sleep(SECOND).await;
        bench.run([delivered(order("slow"), "second", 2)]).await
    };
    let slow = delivered(order("slow"), "first", 1);
    let (_, failed) = tokio::join!(bench.run([slow]), second);
    assert_eq!(failed, ["m-0"]);
    let longest = 12 * HOUR - 60 - 15 * 60;
    assert_eq!(asked(&sqs), expected([("second", longest)]));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_never_started_is_not_backed_off() {
    let sqs = Sqs::default();
    let bench = backing_off(&sqs).with(|it| it.concurrency(1));
    let cancelled = delivered(order("slow"), "cancelled", 9);
    let untried = delivered(order("next"), "untried", 9);
    assert_eq!(bench.run([cancelled, untried]).await, ["m-0", "m-1"]);
    assert!(asked(&sqs).keys().eq(["cancelled"]));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_group_comes_back_together() {
    let sqs = Sqs::default();
    let records = [
        ("a", "after-40", "a1", 1),
        ("b", "bad", "b1", 2),
        ("a", "a2", "a2", 1),
        ("b", "b2", "b2", 1),
        ("c", "c1", "c1", 1),
        ("d", "hopeless", "d1", 1),
        ("d", "d2", "d2", 1),
    ];
    let records =
        records.map(|(group, id, handle, count)| delivered(grouped(group, id), handle, count));
    let failed = backing_off(&sqs).run(records).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3", "m-5", "m-6"]);
    let waits = [("a1", 40), ("a2", 40), ("b1", 10), ("b2", 10)];
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn ten_records_travel_in_a_request() {
    let sqs = Sqs::default();
    backing_off(&sqs).run(failing(25)).await;
    let requests = entries(&sqs);
    let sizes: Vec<_> = requests.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(asked(&sqs).len(), 25);
    for entries in requests {
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry["Id"], at.to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_changes_nothing_and_is_one_line_without_receipt_handles() {
    for turn in [
        Turn::Refuse("com.amazonaws.sqs#AccessDeniedException"),
        Turn::Refuse("com.amazonaws.sqs#ReceiptHandleIsInvalid"),
        Turn::RefuseEntries(&[0, 1]),
        Turn::LoseAnswer,
        Turn::Hang,
        Turn::Empty,
    ] {
        let bench = backing_off(&Sqs::always(turn.clone()));
        let handle = json!({ "receiptHandle": "canary" });
        let records = failing(12).map(|it| with(it, handle.clone()));
        assert_eq!(bench.run(records).await.len(), 12, "{turn:?}");
        assert_eq!(bench.outcomes(), ["failed"; 12].join(" "));
        let lines = bench.log.take("sqs_once::failed::visibility");
        assert_eq!(lines.len(), 1, "{turn:?}: {lines:?}");
        let line = format!("{lines:?}");
        let is_denied = matches!(turn, Turn::Refuse(code) if code.contains("AccessDenied"));
        let permission = "sqs:ChangeMessageVisibility";
        assert_eq!(line.contains(permission), is_denied);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_in_time_even_if_sqs_never_answers() {
    let mut bench = backing_off(&Sqs::always(Turn::Hang));
    bench.bench.timeout = 3 * SECOND;
    assert_eq!(bench.run(failing(1)).await, ["m-0"]);
    assert!(bench.elapsed() < 3 * SECOND);
    assert_eq!(bench.outcomes(), "failed");
}

#[tokio::test(start_paused = true)]
async fn records_without_receipt_handle_or_queue_are_left_alone() {
    let sqs = Sqs::default();
    let handleless = delivered(order("bad-1"), "", 1);
    let nowhere = json!({ "eventSourceARN": "nowhere" });
    let nowhere = with(delivered(order("bad-2"), "h", 1), nowhere);
    let failed = backing_off(&sqs).run([handleless, nowhere]).await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert!(sqs.requests().is_empty());
}
