//! Visibility timeouts of failed messages.

use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{
    DLQ, Fixed, Mode, SECOND, Tested, grouped, noting, noting_in, one, order, values, with,
};
use serde_json::{Value, json};
use sqs_once::Handler;
use sqs_once::consumer::Queue;
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::testing::{Bench, Operation};
use sqs_once::unstable::Simulated;
use tokio::time::sleep;

const HOUR: u64 = 60 * 60;
/// The start time of the tests' clocks.
const START_MILLIS: u64 = 1_790_000_000_000;

/// A consumer whose orders end as they request.
fn client(sqs: &Sqs) -> Tested {
    client_with(sqs, |it| it)
}

fn client_with(sqs: &Sqs, settings: impl FnOnce(Handler) -> Handler) -> Tested {
    let tested = noting().0.with(settings);
    tested.with_consumer(|it| it.queue(sqs.queue()))
}

fn backing_off(sqs: &Sqs) -> Tested {
    let tested = client_with(sqs, |it| it.backoff(5 * SECOND..=60 * SECOND));
    tested.with_consumer(|it| it.with_random(Fixed(0)))
}

type Setup = fn(&Sqs) -> Tested;

/// The consumers, and whether each has a backoff.
const BOTH: [(Setup, bool); 2] = [(client, false), (backing_off, true)];

/// Records, each as its order's ID, then the number of its delivery and its receipt handle, unless they are 1 and the ID:
/// `bad:2:handle`. The group of a FIFO queue precedes it: `group/bad`.
fn deliveries(text: &str) -> Vec<Value> {
    let records = text.split(' ').map(|one| {
        let (group, one) = one.split_once('/').unwrap_or(("", one));
        let mut parts = one.split(':');
        let id = parts.next().unwrap();
        let mut record = match group {
            "" => order(id),
            group => grouped(group, id),
        };
        let first_received = START_MILLIS.to_string();
        record["attributes"]["ApproximateReceiveCount"] = json!(parts.next().unwrap_or("1"));
        record["attributes"]["ApproximateFirstReceiveTimestamp"] = json!(first_received);
        record["receiptHandle"] = json!(parts.next().unwrap_or(id));
        record
    });
    records.collect()
}

fn failing(count: usize) -> Vec<Value> {
    let ids: Vec<_> = (0..count).map(|at| format!("bad-{at}")).collect();
    deliveries(&ids.join(" "))
}

fn entries(sqs: &Sqs) -> Vec<Vec<Value>> {
    let requests = sqs.asked("ChangeMessageVisibilityBatch").into_iter();
    let entries = requests.map(|one| one["Entries"].as_array().unwrap().clone());
    entries.collect()
}

/// The requested visibility timeouts in order, each as its receipt handle and the seconds.
fn asked(sqs: &Sqs) -> String {
    let asked = entries(sqs).into_iter().flatten().map(|entry| {
        let handle = entry["ReceiptHandle"].as_str().unwrap();
        format!("{handle} {}", entry["VisibilityTimeout"])
    });
    let mut asked: Vec<_> = asked.collect();
    asked.sort();
    asked.join(", ")
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_stays_away_longer_with_every_delivery() {
    let sqs = Sqs::default();
    let records = deliveries("bad-1:1 bad-2:2 bad-3:3 bad-4:4 bad-9:9 good:1");
    assert_eq!(backing_off(&sqs).run(records).await.len(), 5);
    let waits = "bad-1 5, bad-2 10, bad-3 20, bad-4 30, bad-9 30";
    assert_eq!(asked(&sqs), waits);
}

#[tokio::test(start_paused = true)]
async fn a_queue_by_its_arn_has_its_own_client_and_dead_letters_and_takes_the_rest_from_any() {
    let arn = "arn:aws:sqs:eu-central-1:123456789012:own";
    let url = format!("{DLQ}-of-own");
    for (set, letters) in [(None, DLQ), (Some(&url), &*url)] {
        let [any, own] = [Sqs::default(), Sqs::default()];
        let queue = Queue::arn(arn).client(own.client());
        let queue = set.into_iter().fold(queue, Queue::dead_letter_queue);
        let bench = backing_off(&any)
            .with_consumer(|it| it.queue(queue).queue(any.queue().dead_letter_queue(DLQ)));
        let mut records = deliveries("bad:1:a hopeless bad-own:1:b hopeless-own");
        for record in &mut records[2..] {
            record["eventSourceARN"] = json!(arn);
        }
        assert_eq!(bench.run(records).await, ["m-0", "m-2"]);
        for (sqs, hidden, letters) in [(&any, "a 5", DLQ), (&own, "b 5", letters)] {
            assert_eq!(asked(sqs), hidden);
            let [sent] = sqs.asked("SendMessage").try_into().unwrap();
            assert_eq!(sent["QueueUrl"], letters);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_handlers_wish_is_kept_in_whole_seconds_with_and_without_a_backoff() {
    for (new, with_backoff) in BOTH {
        let sqs = Sqs::default();
        let records = deliveries("after-7:1 after-7.2:2 after-0:3 bad:1");
        assert_eq!(new(&sqs).run(records).await.len(), 4);
        let bad = if with_backoff { ", bad 5" } else { "" };
        let waits = format!("after-0 0, after-7 7, after-7.2 8{bad}");
        assert_eq!(asked(&sqs), waits);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_beyond_twelve_hours_from_the_receipt() {
    let sqs = Sqs::default();
    // SQS does not report when it redelivered the message `again`.
    let text = "after-90000:1:earlier after-99999:1:now after-80000:2:again after-1e30:1:never";
    let mut records = deliveries(text);
    let an_hour_ago = (START_MILLIS - HOUR * 1000).to_string();
    records[0]["attributes"]["ApproximateFirstReceiveTimestamp"] = json!(an_hour_ago);
    client(&sqs).run(records).await;
    let most = 12 * HOUR - 60;
    let (again, earlier) = (most - 15 * 60, most - HOUR);
    let waits = format!("again {again}, earlier {earlier}, never {most}, now {most}");
    assert_eq!(asked(&sqs), waits);

    // The time of the batch counts.
    let sqs = Sqs::default();
    let mut bench = client_with(&sqs, |it| it.attempt_timeout(80 * 60 * SECOND))
        .with_consumer(|it| it.concurrency(1));
    bench.bench.timeout = Duration::from_mins(90);
    bench.run(deliveries("slow:2 after-80000:2:again")).await;
    assert_eq!(asked(&sqs), format!("again {}", again - 80 * 60));
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_stays_away_until_that_lease_has_lapsed() {
    for (new, with_backoff) in BOTH {
        let sqs = Sqs::default();
        let bench = new(&sqs);
        let second = async {
            sleep(10 * SECOND).await;
            assert_eq!(bench.run(deliveries("slow:1:second")).await, ["m-0"]);
            // The first deadline is 30 s after the start, and the lease ends 3 s later.
            assert_eq!(asked(&sqs), "second 23");
        };
        tokio::join!(bench.run(deliveries("slow:1:first")), second);
        // The handler was cancelled a second before its deadline, and its claim expires.
        let first = if with_backoff { "first 5, " } else { "" };
        assert_eq!(asked(&sqs), format!("{first}second 23"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_handler_was_cancelled_stays_away_until_its_own_lease_has_lapsed() {
    // The lease ends 3 s after the deadline, 30 s after the start. A record without a claim has no lease.
    for (mode, wait) in [(Mode::ClaimFirst, "slow 32"), (Mode::RecordAfter, "slow 5")] {
        let sqs = Sqs::default();
        let backoff = 5 * SECOND..=60 * SECOND;
        let bench = noting_in(mode).0;
        let bench = bench.with(|it| it.backoff(backoff).attempt_timeout(SECOND));
        let bench = bench.with_consumer(|it| it.queue(sqs.queue()).with_random(Fixed(0)));
        assert_eq!(bench.run(deliveries("slow")).await, ["m-0"]);
        assert_eq!(asked(&sqs), wait);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_leaves_a_claim_behind_stays_away_until_its_own_lease_has_lapsed() {
    for (operation, kind) in [
        (Operation::Claim, StoreErrorKind::Unanswered),
        (Operation::Complete, StoreErrorKind::Unanswered),
        (Operation::Complete, StoreErrorKind::Throttled),
    ] {
        let backoff = SECOND..=SECOND;
        let bench = Bench::new(values().call(async |_: Value| {}).backoff(backoff));
        bench.store().fail(operation, kind, usize::MAX);
        let answer = bench.run(one("a")).await.assert_failed("m-1").delay("m-1");
        // The batch took nearly all of its time. A lease ends 3 s later.
        assert!(answer.unwrap() >= 3 * SECOND, "{operation:?} {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_record_in_progress_elsewhere_stay_away_as_long() {
    let sqs = Sqs::default();
    let bench = client(&sqs);
    bench.foreign("k", Status::InProgress, 23 * SECOND);
    let records = deliveries("a/k:1:a1 a/a2 b/k:1:b1 b/b2 c/bad");
    assert_eq!(bench.run(records).await.len(), 5);
    assert_eq!(asked(&sqs), "a1 23, a2 23, b1 23, b2 23");
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_batch_still_takes_counts() {
    let sqs = Sqs::default();
    let bench = client_with(&sqs, |it| it.attempt_timeout(10 * SECOND));
    bench.run(deliveries("after-3 after-30 slow")).await;
    assert_eq!(asked(&sqs), "after-3 0, after-30 20");
}

#[tokio::test(start_paused = true)]
async fn a_lease_beyond_twelve_hours_keeps_its_record_away_as_long_as_sqs_allows() {
    let sqs = Sqs::default();
    let bench = client(&sqs);
    bench.foreign("k", Status::InProgress, Duration::from_hours(20));
    assert_eq!(bench.run(deliveries("k:2")).await, ["m-0"]);
    let longest = 12 * HOUR - 60 - 15 * 60;
    assert_eq!(asked(&sqs), format!("k {longest}"));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_never_started_is_not_backed_off() {
    let sqs = Sqs::default();
    let bench = backing_off(&sqs).with_consumer(|it| it.concurrency(1));
    let records = deliveries("slow:9:cancelled next:9:untried");
    assert_eq!(bench.run(records).await, ["m-0", "m-1"]);
    let asked = asked(&sqs);
    assert!(asked.starts_with("cancelled ") && !asked.contains("untried"));
}

#[tokio::test(start_paused = true)]
async fn a_fifo_group_comes_back_together() {
    let sqs = Sqs::default();
    let records = deliveries("a/after-40 b/bad:2 a/a2 b/b2 c/c1 d/hopeless d/d2");
    let failed = backing_off(&sqs).run(records).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3", "m-5", "m-6"]);
    assert_eq!(asked(&sqs), "a2 40, after-40 40, b2 10, bad 10");
}

#[tokio::test(start_paused = true)]
async fn ten_records_travel_in_a_request() {
    let sqs = Sqs::default();
    backing_off(&sqs).run(failing(25)).await;
    let requests = entries(&sqs);
    let sizes: Vec<_> = requests.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 5]);
    for entries in requests {
        for (at, entry) in entries.iter().enumerate() {
            assert_eq!(entry["Id"], at.to_string());
        }
    }
    // The queue's URL is known from its ARN.
    let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
    let asked = sqs.asked("ChangeMessageVisibilityBatch");
    assert!(asked.iter().all(|request| request["QueueUrl"] == url));
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
        let records = failing(12).into_iter().map(|it| with(it, handle.clone()));
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
async fn a_permission_that_the_role_lacks_is_one_warning_for_all_batches() {
    for (code, lines) in [("AccessDeniedException", 1), ("RequestThrottled", 3)] {
        let refused = Turn::Refuse(format!("com.amazonaws.sqs#{code}").leak());
        let bench = backing_off(&Sqs::always(refused));
        for _ in 0..3 {
            assert_eq!(bench.run(failing(2)).await, ["m-0", "m-1"]);
        }
        let log = bench.log.take("sqs_once::failed::visibility");
        assert_eq!(log.len(), lines, "{log:?}");
        assert!(log.iter().all(|line| line["level"] == "WARN"), "{log:?}");
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
    let mut records = deliveries("bad-1:1: bad-2");
    records[1]["eventSourceARN"] = json!("nowhere");
    assert_eq!(backing_off(&sqs).run(records).await, ["m-0", "m-1"]);
    assert!(sqs.requests().is_empty());
}
