//! The warning about a batch that still runs shortly before SQS delivers its messages again.

use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, Line, Order, event, order};
use serde_json::{Value, json};
use sqs_once::time::Clock;
use sqs_once::{Consumer, consumer};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
/// The visibility timeout that the queue reports.
const ASKED: &str = "60000";

/// Orders named `50` take fifty seconds.
fn taking_its_time(bench: &Bench) -> Consumer {
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |order: Order| sleep(order.id.parse::<u32>().unwrap() * SECOND).await);
    bench.consumer(consumer)
}

fn bench() -> Bench {
    Bench {
        timeout: 90 * SECOND,
        ..Bench::new()
    }
}

/// A record that SQS first delivered this long ago.
fn delivered(bench: &Bench, id: &str, ago: Duration, receive_count: u32) -> Value {
    let received = bench.clock.now().as_millis() - ago.as_millis() as u64;
    let mut record = order(id);
    record["attributes"] = json!({
        "ApproximateReceiveCount": receive_count.to_string(),
        "ApproximateFirstReceiveTimestamp": received.to_string(),
    });
    record
}

fn warnings(bench: &Bench) -> Vec<Line> {
    bench.log.take("sqs_once::batch::visibility_warning")
}

#[tokio::test(start_paused = true)]
async fn a_batch_still_at_work_after_four_fifths_of_the_visibility_timeout_is_a_warning() {
    for (takes, warns) in [("47", false), ("49", true)] {
        let bench = bench();
        let consumer = taking_its_time(&bench).visibility_timeout(60 * SECOND);
        bench
            .invoke(&consumer, event([order("0"), order(takes)]))
            .await;
        let warnings = warnings(&bench);
        assert_eq!(
            warnings.len(),
            usize::from(warns),
            "{takes} s: {warnings:?}"
        );
        for warning in warnings {
            assert_eq!(warning["level"], "WARN");
            assert_eq!(warning["records"], "2");
            assert_eq!(warning["visibility_timeout_ms"], "60000");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_warning_comes_while_the_batch_is_at_work() {
    let bench = bench();
    let consumer = taking_its_time(&bench).visibility_timeout(60 * SECOND);
    let event = event([order("80")]);
    let batch = bench.invoke(&consumer, event);
    tokio::select! {
        _ = batch => panic!("it takes 80 s"),
        () = sleep(49 * SECOND) => {}
    }
    assert_eq!(warnings(&bench).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_a_messages_first_receipt_but_not_from_an_earlier_deliverys() {
    for (receive_count, warned) in [(1, Some("m-1")), (2, None)] {
        let bench = bench();
        let consumer = taking_its_time(&bench).visibility_timeout(60 * SECOND);
        let waited = |id, secs: u32| delivered(&bench, id, secs * SECOND, receive_count);
        bench
            .invoke(&consumer, event([waited("0", 5), waited("10", 40)]))
            .await;
        let ids: Vec<_> = warnings(&bench)
            .into_iter()
            .map(|warning| warning["message_id"].clone())
            .collect();
        assert_eq!(
            ids.first().map(String::as_str),
            warned,
            "delivery {receive_count}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_visibility_timeout_without_an_end_is_never_near_it() {
    let bench = bench();
    let consumer = taking_its_time(&bench).visibility_timeout(Duration::MAX);
    let failed = bench.invoke(&consumer, event([order("80")])).await;
    assert_eq!(failed, [""; 0]);
    assert!(warnings(&bench).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_asked_by_a_batch_that_takes_half_of_its_time_and_by_no_other() {
    let (bench, sqs) = (bench(), Sqs::default());
    let consumer = taking_its_time(&bench).sqs_client(sqs.client());
    bench.invoke(&consumer, event([order("40")])).await;
    assert_eq!(sqs.requests().len(), 0);

    bench.invoke(&consumer, event([order("50")])).await;
    let [request] = sqs.asked("GetQueueAttributes").try_into().unwrap();
    assert_eq!(request["AttributeNames"], json!(["VisibilityTimeout"]));
    assert_eq!(
        request["QueueUrl"],
        "https://sqs.eu-central-1.amazonaws.com/123456789012/orders"
    );
    let [warning] = warnings(&bench).try_into().unwrap();
    assert_eq!(warning["visibility_timeout_ms"], ASKED);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_say_its_visibility_timeout_holds_nothing_up() {
    for turn in [Turn::Refuse("AccessDenied"), Turn::Hang] {
        let (bench, sqs) = (bench(), Sqs::always(turn));
        let consumer = taking_its_time(&bench).sqs_client(sqs.client());
        let began = bench.clock.now();
        let failed = bench.invoke(&consumer, event([order("50")])).await;
        assert_eq!(failed, [""; 0]);
        assert_eq!(bench.clock.now().since(began), 50 * SECOND);
        assert!(warnings(&bench).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_consumer_sets_is_not_asked_for() {
    let (bench, sqs) = (bench(), Sqs::default());
    let consumer = taking_its_time(&bench)
        .sqs_client(sqs.client())
        .visibility_timeout(600 * SECOND);
    bench.invoke(&consumer, event([order("80")])).await;
    assert_eq!(sqs.requests().len(), 0);
    assert!(warnings(&bench).is_empty());
}
