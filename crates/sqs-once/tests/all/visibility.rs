//! Visibility timeouts of failed messages.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, Order, event, grouped, order, outcomes};
use serde_json::{Value, json};
use sqs_once::policy::Backoff;
use sqs_once::random::Random;
use sqs_once::testing::TestSettings;
use sqs_once::{Consumer, HandlerError, ResultExt, consumer};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: u64 = 60 * 60;
/// The start time of the tests' clocks.
const START_MILLIS: u64 = 1_790_000_000_000;

/// Always the smallest random number.
struct Least;

impl Random for Least {
    fn bits(&self) -> u128 {
        0
    }
}

/// Orders named `after-N` request N seconds, `bad…` fail, `hopeless…` are terminal, `slow…` run for a minute.
fn client(bench: &Bench, sqs: &Sqs) -> Consumer {
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .sqs_client(sqs.client())
        .handler(async |order: Order| -> Result<(), HandlerError> {
            let failed = || Err("no luck");
            if let Some(secs) = order.id.strip_prefix("after-") {
                let secs: f64 = secs.parse()?;
                let delay = Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX);
                failed().retry_after(delay)?;
            } else if order.id.starts_with("bad") {
                failed()?;
            } else if order.id.starts_with("hopeless") {
                failed().terminal()?;
            } else if order.id.starts_with("slow") {
                sleep(60 * SECOND).await;
            }
            Ok(())
        });
    bench.consumer(consumer)
}

fn backing_off(bench: &Bench, sqs: &Sqs) -> Consumer {
    let backoff = Backoff::exponential(5 * SECOND, 60 * SECOND);
    client(bench, sqs).backoff(backoff).random(Least)
}

/// A record with this receipt handle, on its nth delivery.
fn delivered(mut record: Value, handle: &str, receive_count: u32) -> Value {
    record["receiptHandle"] = json!(handle);
    record["attributes"]["ApproximateReceiveCount"] = json!(receive_count.to_string());
    record["attributes"]["ApproximateFirstReceiveTimestamp"] = json!(START_MILLIS.to_string());
    record
}

/// The requested visibility timeouts, by receipt handle.
fn asked(sqs: &Sqs) -> BTreeMap<String, u64> {
    let requests = sqs.asked("ChangeMessageVisibilityBatch");
    let entries = requests
        .iter()
        .flat_map(|request| request["Entries"].as_array().unwrap());
    entries
        .map(|entry| {
            let handle = entry["ReceiptHandle"].as_str().unwrap().to_owned();
            (handle, entry["VisibilityTimeout"].as_u64().unwrap())
        })
        .collect()
}

fn expected<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected
        .map(|(handle, secs)| (handle.to_owned(), secs))
        .into()
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_stays_away_longer_with_every_delivery() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let records = [1, 2, 3, 4, 9].map(|count| {
        let id = format!("bad-{count}");
        delivered(order(&id), &format!("h{count}"), count)
    });
    let good = delivered(order("good"), "h0", 1);
    let consumer = backing_off(&bench, &sqs);
    let failed = bench
        .invoke(&consumer, event(records.into_iter().chain([good])))
        .await;
    assert_eq!(failed.len(), 5);
    let waits = [("h1", 5), ("h2", 10), ("h3", 20), ("h4", 30), ("h9", 30)];
    assert_eq!(asked(&sqs), expected(waits));
    let [request] = sqs
        .asked("ChangeMessageVisibilityBatch")
        .try_into()
        .unwrap();
    let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
    assert_eq!(request["QueueUrl"], url);
}

#[tokio::test(start_paused = true)]
async fn chance_keeps_records_apart_that_failed_together() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let backoff = Backoff::exponential(HOUR as u32 * SECOND, 10 * HOUR as u32 * SECOND);
    let consumer = client(&bench, &sqs).backoff(backoff);
    let records = (0..10).map(|at| delivered(order(&format!("bad-{at}")), &format!("h{at}"), 1));
    bench.invoke(&consumer, event(records)).await;
    let waits: Vec<_> = asked(&sqs).into_values().collect();
    assert!(
        waits.iter().all(|wait| (HOUR..=2 * HOUR).contains(wait)),
        "{waits:?}"
    );
    assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn the_handlers_wish_is_kept_in_whole_seconds_with_and_without_a_backoff() {
    for with_backoff in [false, true] {
        let (bench, sqs) = (Bench::new(), Sqs::default());
        let consumer = match with_backoff {
            true => backing_off(&bench, &sqs),
            false => client(&bench, &sqs),
        };
        let records = [
            delivered(order("after-7"), "whole", 1),
            delivered(order("after-7.2"), "up", 2),
            delivered(order("after-0"), "at once", 3),
            delivered(order("bad"), "no wish", 1),
        ];
        assert_eq!(bench.invoke(&consumer, event(records)).await.len(), 4);
        let mut waits = expected([("whole", 7), ("up", 8), ("at once", 0)]);
        if with_backoff {
            waits.insert("no wish".to_owned(), 5);
        }
        assert_eq!(asked(&sqs), waits);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_for_beyond_twelve_hours_from_the_receipt() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
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
    bench.invoke(&client(&bench, &sqs), event(records)).await;
    let waits = [
        ("now", 12 * HOUR - 60),
        ("earlier", 11 * HOUR - 60),
        ("again", 12 * HOUR - 60 - 15 * 60),
        ("never", 12 * HOUR - 60),
    ];
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_stays_away_until_that_lease_has_lapsed() {
    for with_backoff in [false, true] {
        let (bench, sqs) = (Bench::new(), Sqs::default());
        let consumer = match with_backoff {
            true => backing_off(&bench, &sqs),
            false => client(&bench, &sqs),
        };
        let slow = event([delivered(order("slow"), "first", 1)]);
        let second = async {
            sleep(10 * SECOND).await;
            let again = event([delivered(order("slow"), "second", 1)]);
            assert_eq!(bench.invoke(&consumer, again).await, ["m-0"]);
            // The first deadline is 30 s after the start, and the lease ends 3 s later.
            assert_eq!(asked(&sqs), expected([("second", 23)]));
        };
        let (_, ()) = tokio::join!(bench.invoke(&consumer, slow), second);
        // The handler was cancelled a second before its deadline, and its claim expires.
        assert_eq!(asked(&sqs).get("first"), with_backoff.then_some(&5));
    }
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_record_in_progress_elsewhere_stay_away_as_long() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = client(&bench, &sqs);
    let elsewhere = async {
        let slow = event([delivered(grouped("a", "slow"), "elsewhere", 1)]);
        bench.invoke(&consumer, slow).await
    };
    let here = async {
        sleep(10 * SECOND).await;
        let records = [
            delivered(grouped("a", "slow"), "a1", 1),
            delivered(grouped("a", "a2"), "its group", 1),
            delivered(grouped("b", "slow"), "its key", 1),
            delivered(grouped("b", "b2"), "its key's group", 1),
            delivered(grouped("c", "bad"), "another", 1),
        ];
        bench.invoke(&consumer, event(records)).await
    };
    let (_, failed) = tokio::join!(elsewhere, here);
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3", "m-4"]);
    let waits = ["a1", "its group", "its key", "its key's group"].map(|handle| (handle, 23));
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_batch_still_takes_counts() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = client(&bench, &sqs).record_timeout(10 * SECOND);
    let records = [
        delivered(order("after-3"), "over", 1),
        delivered(order("after-30"), "left", 1),
        delivered(order("slow"), "last", 1),
    ];
    bench.invoke(&consumer, event(records)).await;
    assert_eq!(asked(&sqs), expected([("over", 0), ("left", 20)]));
}

#[tokio::test(start_paused = true)]
async fn a_lease_beyond_twelve_hours_keeps_its_record_away_as_long_as_sqs_allows() {
    let (mut bench, sqs) = (Bench::new(), Sqs::default());
    bench.timeout = 20 * HOUR as u32 * SECOND;
    let consumer = client(&bench, &sqs);
    let second = async {
        sleep(SECOND).await;
        let again = event([delivered(order("slow"), "second", 2)]);
        bench.invoke(&consumer, again).await
    };
    let slow = event([delivered(order("slow"), "first", 1)]);
    let (_, failed) = tokio::join!(bench.invoke(&consumer, slow), second);
    assert_eq!(failed, ["m-0"]);
    let longest = 12 * HOUR - 60 - 15 * 60;
    assert_eq!(asked(&sqs), expected([("second", longest)]));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_never_started_is_not_backed_off() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let consumer = backing_off(&bench, &sqs).concurrency(1);
    let records = [
        delivered(order("slow"), "cancelled", 9),
        delivered(order("next"), "untried", 9),
    ];
    assert_eq!(
        bench.invoke(&consumer, event(records)).await,
        ["m-0", "m-1"]
    );
    assert_eq!(asked(&sqs).keys().collect::<Vec<_>>(), ["cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_fifo_group_comes_back_together() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let records = [
        delivered(grouped("a", "after-40"), "a1", 1),
        delivered(grouped("b", "bad"), "b1", 2),
        delivered(grouped("a", "a2"), "a2", 1),
        delivered(grouped("b", "b2"), "b2", 1),
        delivered(grouped("c", "c1"), "c1", 1),
        delivered(grouped("d", "hopeless"), "d1", 1),
        delivered(grouped("d", "d2"), "d2", 1),
    ];
    let failed = bench
        .invoke(&backing_off(&bench, &sqs), event(records))
        .await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3", "m-5", "m-6"]);
    let waits = [("a1", 40), ("a2", 40), ("b1", 10), ("b2", 10)];
    assert_eq!(asked(&sqs), expected(waits));
}

#[tokio::test(start_paused = true)]
async fn ten_records_travel_in_a_request() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let records = (0..25).map(|at| delivered(order(&format!("bad-{at}")), &format!("h{at}"), 1));
    bench
        .invoke(&backing_off(&bench, &sqs), event(records))
        .await;
    let requests = sqs.asked("ChangeMessageVisibilityBatch");
    let sizes: Vec<_> = requests
        .iter()
        .map(|request| request["Entries"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(asked(&sqs).len(), 25);
    for request in requests {
        let entries = request["Entries"].as_array().unwrap();
        let ids: Vec<_> = entries.iter().map(|entry| entry["Id"].as_str()).collect();
        assert!(
            ids.iter()
                .enumerate()
                .all(|(at, id)| *id == Some(&*at.to_string()))
        );
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
    ] {
        let (bench, sqs) = (Bench::new(), Sqs::always(turn.clone()));
        let records = (0..12).map(|at| delivered(order(&format!("bad-{at}")), "handle-0", 1));
        let failed = bench
            .invoke(&backing_off(&bench, &sqs), event(records))
            .await;
        assert_eq!(failed.len(), 12, "{turn:?}");
        let lines = bench.outcomes();
        assert_eq!(lines.len(), 12);
        assert!(lines.iter().all(|(_, outcome)| outcome == "failed"));
        let lines = bench.log.take("sqs_once::disposition::visibility");
        assert_eq!(lines.len(), 1, "{turn:?}: {lines:?}");
        let line = format!("{lines:?}");
        assert!(!line.contains("handle-0"), "{line}");
        let refused = matches!(
            turn,
            Turn::Refuse("com.amazonaws.sqs#AccessDeniedException")
        );
        assert_eq!(line.contains("sqs:ChangeMessageVisibility"), refused);
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_is_in_time_even_if_sqs_never_answers() {
    let (mut bench, sqs) = (Bench::new(), Sqs::always(Turn::Hang));
    bench.timeout = 3 * SECOND;
    let consumer = backing_off(&bench, &sqs);
    let start = tokio::time::Instant::now();
    let failed = bench
        .invoke(&consumer, event([delivered(order("bad"), "h", 1)]))
        .await;
    assert_eq!(failed, ["m-0"]);
    assert!(start.elapsed() < 3 * SECOND);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "failed")]));
}

#[tokio::test(start_paused = true)]
async fn records_without_receipt_handle_or_queue_are_left_alone() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let mut nowhere = delivered(order("bad-2"), "h", 1);
    nowhere["eventSourceARN"] = json!("nowhere");
    let records = [delivered(order("bad-1"), "", 1), nowhere];
    let failed = bench
        .invoke(&backing_off(&bench, &sqs), event(records))
        .await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert!(sqs.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_queues_url_can_be_set() {
    let (bench, sqs) = (Bench::new(), Sqs::default());
    let url = "https://vpce-1.sqs.eu-central-1.vpce.amazonaws.com/123456789012/orders";
    let consumer = backing_off(&bench, &sqs).queue_url(url);
    let record = delivered(order("bad"), "h", 1);
    bench.invoke(&consumer, event([record])).await;
    let [request] = sqs
        .asked("ChangeMessageVisibilityBatch")
        .try_into()
        .unwrap();
    assert_eq!(request["QueueUrl"], url);
}
