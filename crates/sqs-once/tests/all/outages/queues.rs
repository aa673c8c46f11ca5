//! What the consumer knows of the queues whose messages wait for a dependency.

use serde_json::{Value, json};
use sqs_once::Handler;

use super::Service;
use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, DLQ, FIFO, SECOND, STANDARD, Tested, assert_contains, order, with};

const OTHER: &str = "arn:aws:sqs:eu-central-1:123456789012:refunds";
/// The URL of the first queue.
const OWN: &str = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders";
const HOUR: u64 = 3600;

/// A queue's answer.
fn queue(count: impl Into<Value>, retention: u64) -> Turn {
    let policy = json!({ "deadLetterTargetArn": "dead", "maxReceiveCount": count.into() });
    Turn::Attributes(json!({
        "RedrivePolicy": policy.to_string(),
        "MessageRetentionPeriod": retention.to_string(),
    }))
}

/// A consumer whose dependency is down.
fn outage(sqs: &Sqs) -> Tested {
    outage_with(sqs, |it| it)
}

fn outage_with(sqs: &Sqs, settings: impl FnOnce(Handler) -> Handler) -> Tested {
    let service = Service::down();
    let tested = Bench::new().on(settings(service.handler()));
    tested.with_consumer(|it| it.queue(sqs.queue().dead_letter_queue(DLQ)))
}

/// Delivers a message of this queue. Returns the delay that the consumer requests, if it requests one.
async fn delay(tested: &Tested, sqs: &Sqs, arn: &str, receive_count: u32) -> Option<u64> {
    let before = sqs.asked("ChangeMessageVisibilityBatch").len();
    let now = tested.clock.now().as_millis().to_string();
    let received = json!({
        "eventSourceARN": arn,
        "attributes": { "ApproximateReceiveCount": receive_count.to_string(), "SentTimestamp": now },
    });
    assert_eq!(tested.run([with(order("1"), received)]).await, ["m-0"]);
    let requests = sqs.asked("ChangeMessageVisibilityBatch").split_off(before);
    let request = requests.first()?;
    let name = arn.rsplit(':').next().unwrap();
    assert_contains!(request["QueueUrl"].as_str().unwrap(), name);
    request["Entries"][0]["VisibilityTimeout"].as_u64()
}

#[tokio::test(start_paused = true)]
async fn a_queues_answer_decides_how_long_its_messages_stay_hidden() {
    let without_policy = Turn::Attributes(json!({ "MessageRetentionPeriod": "1209600" }));
    // 30 s × (2880^(1/left) - 1), and up to a quarter more.
    for (turn, receive_count, expected) in [
        (queue(5, 96 * HOUR), 1, 190..=240),
        (queue("5", 96 * HOUR), 1, 190..=240),
        (queue(5, 96 * HOUR), 4, 42_000..=43_200),
        (queue(21, 96 * HOUR), 1, 30..=38),
        (without_policy, 1000, 30..=38),
    ] {
        let sqs = Sqs::turns([turn]);
        let tested = outage(&sqs);
        for _ in 0..3 {
            let delay = delay(&tested, &sqs, STANDARD, receive_count).await.unwrap();
            assert!(expected.contains(&delay), "{delay} is not in {expected:?}");
        }
        assert_eq!(sqs.asked("GetQueueAttributes").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn each_queue_of_a_function_has_its_own_retention_and_receive_count() {
    let sqs = Sqs::turns([queue(3, 96 * HOUR), Turn::Do, queue(20, HOUR)]);
    let tested = outage(&sqs);
    let first = delay(&tested, &sqs, STANDARD, 2).await.unwrap();
    assert!(first > 11 * HOUR, "{first}");
    // SQS would delete a message that stays hidden for longer.
    for receive_count in [3, 19] {
        let other = delay(&tested, &sqs, OTHER, receive_count).await.unwrap();
        assert!(other <= 45 * 60, "{other}");
    }
    let asked = sqs.asked("GetQueueAttributes");
    let urls: Vec<_> = asked.iter().map(|one| &one["QueueUrl"]).collect();
    assert_eq!(urls, [OWN, &OWN.replace("orders", "refunds")]);
    assert_eq!(sqs.asked("SendMessage").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_asked_again_during_an_outage_and_its_last_answer_holds_without_one() {
    let refused = Turn::Refuse("AccessDenied");
    let [first, second] = [queue(2, 96 * HOUR), queue(2, HOUR)];
    let sqs = Sqs::turns([first, Turn::Do, second, Turn::Do, refused]);
    let tested = outage(&sqs);
    let mut delays = Vec::new();
    for _ in 0..3 {
        delays.push(delay(&tested, &sqs, STANDARD, 1).await.unwrap());
        tested.clock.advance(61 * SECOND);
    }
    assert!(delays[0] > 11 * HOUR, "{delays:?}");
    assert_eq!(delays[1..], [45 * 60; 2]);
    assert_eq!(sqs.asked("GetQueueAttributes").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_message_of_a_queue_with_unknown_settings_keeps_its_visibility_timeout_or_its_backoff() {
    let backoff = 5 * SECOND..=60 * SECOND;
    // An empty answer is no answer.
    for turn in [Turn::Refuse("AccessDenied"), Turn::Empty, Turn::Hang] {
        // The fourth batch finds the breaker open.
        let sqs = Sqs::always(turn.clone());
        let tested = outage(&sqs);
        for _ in 0..5 {
            assert_eq!(delay(&tested, &sqs, STANDARD, 1000).await, None);
        }
        let [warning] = &tested.log.take("sqs_once::failed::visibility")[..] else {
            panic!("one warning for {turn:?}")
        };
        assert_contains!(warning["message"], "sqs:GetQueueAttributes");
        assert_eq!(warning["queue"], STANDARD);

        let sqs = Sqs::turns([turn]);
        let tested = outage_with(&sqs, |it| it.backoff(backoff.clone()));
        for _ in 0..5 {
            let delay = delay(&tested, &sqs, STANDARD, 1000).await.unwrap();
            assert!((30..=60).contains(&delay), "{delay}");
        }
        assert_eq!(sqs.asked("SendMessage").len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_group_on_its_last_delivery_moves_to_the_dead_letter_queue_in_order() {
    let sqs = Sqs::turns([queue(5, 96 * HOUR)]);
    let tested = outage(&sqs);
    let last = json!({ "MessageGroupId": "a", "ApproximateReceiveCount": "5" });
    let last = json!({ "attributes": last, "eventSourceARN": FIFO });
    let group = ["1", "2", "3", "4"].map(|id| with(order(id), last.clone()));
    assert_eq!(tested.run(group).await, [] as [&str; 0]);
    let moved = sqs.asked("SendMessage").into_iter();
    let bodies: Vec<_> = moved.map(|sent| sent["MessageBody"].clone()).collect();
    let ids = ["1", "2", "3", "4"];
    assert_eq!(bodies, ids.map(|id| json!({ "id": id }).to_string()));
    let tried = "unavailable: payments: connection refused";
    let behind = "unavailable: payments: an earlier message of its group failed";
    assert_eq!(sqs.reasons(), [tried, behind, behind, behind]);
}
