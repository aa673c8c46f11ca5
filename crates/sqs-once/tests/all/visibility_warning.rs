//! The warning about a batch that still runs shortly before SQS delivers its messages again.

use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, Line, Order, SECOND, Tested, order, orders, with};
use serde_json::{Value, json};
use tokio::time::sleep;

/// Orders named `50` take fifty seconds.
fn taking_its_time(sqs: &Sqs) -> Tested {
    let bench = Bench::with_timeout(90 * SECOND);
    let handler = orders().call(async |order: Order| {
        sleep(order.id.parse::<u32>().unwrap() * SECOND).await;
    });
    bench.on(handler).with_consumer(|it| it.queue(sqs.queue()))
}

/// A record that SQS first delivered this long ago.
fn delivered(bench: &Bench, id: &str, ago: Duration, receive_count: u32) -> Value {
    let received = bench.clock.now().as_millis() - ago.as_millis() as u64;
    let attributes = json!({
        "ApproximateReceiveCount": receive_count.to_string(),
        "ApproximateFirstReceiveTimestamp": received.to_string(),
    });
    with(order(id), json!({ "attributes": attributes }))
}

fn warnings(bench: &Bench) -> Vec<Line> {
    bench.log.take("sqs_once::batch::visibility_warning")
}

#[tokio::test(start_paused = true)]
async fn a_batch_still_at_work_after_four_fifths_of_the_visibility_timeout_is_a_warning() {
    for (takes, warns) in [("47", false), ("49", true)] {
        let bench = taking_its_time(&Sqs::default());
        bench.run(["0", takes]).await;
        let warnings = warnings(&bench);
        assert_eq!(!warnings.is_empty(), warns, "{takes} s: {warnings:?}");
        assert!(warnings.len() <= 1, "{warnings:?}");
        for warning in warnings {
            assert_eq!(warning["level"], "WARN");
            assert_eq!(warning["records"], "2");
            assert_eq!(warning["visibility_timeout_ms"], "60000");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_warning_comes_while_the_batch_is_at_work() {
    let bench = taking_its_time(&Sqs::default());
    tokio::select! {
        _ = bench.run(["80"]) => panic!("it takes 80 s"),
        () = sleep(49 * SECOND) => {}
    }
    assert_eq!(warnings(&bench).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_a_messages_first_receipt_but_not_from_an_earlier_deliverys() {
    for (receive_count, warned) in [(1, Some("m-1")), (2, None)] {
        let bench = taking_its_time(&Sqs::default());
        let waited = |id, secs: u32| delivered(&bench, id, secs * SECOND, receive_count);
        bench.run([waited("0", 5), waited("10", 40)]).await;
        let warnings = warnings(&bench);
        let ids = warnings.iter().map(|warning| &*warning["message_id"]);
        assert!(ids.eq(warned), "delivery {receive_count}: {warnings:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_receipt_before_the_longest_visibility_timeout_does_not_count() {
    for (hours, warns) in [(12, true), (13, false)] {
        let bench = taking_its_time(&Sqs::default());
        let record = delivered(&bench, "1", hours * 3600 * SECOND, 1);
        bench.run([record]).await;
        assert_eq!(!warnings(&bench).is_empty(), warns, "{hours} hours");
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_asked_by_a_batch_that_takes_half_of_its_time_and_by_no_other() {
    let sqs = Sqs::default();
    let bench = taking_its_time(&sqs);
    bench.run(["40"]).await;
    assert_eq!(sqs.requests().len(), 0);

    bench.run(["50"]).await;
    let [request] = sqs.asked("GetQueueAttributes").try_into().unwrap();
    assert_eq!(request["AttributeNames"], json!(["VisibilityTimeout"]));
    let url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
    assert_eq!(request["QueueUrl"], url);
    let [warning] = warnings(&bench).try_into().unwrap();
    assert_eq!(warning["visibility_timeout_ms"], "60000");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_does_not_say_its_visibility_timeout_holds_nothing_up() {
    for turn in [Turn::Refuse("AccessDenied"), Turn::Hang] {
        let sqs = Sqs::always(turn);
        let bench = taking_its_time(&sqs);
        assert_eq!(bench.run(["50"]).await, [""; 0]);
        assert_eq!(bench.elapsed(), 50 * SECOND);
        assert!(warnings(&bench).is_empty());
    }
}
