//! Records without a business key.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, FIFO, body, event, outcomes};
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::extract::{Attempt, Key};
use sqs_once::handler::{Done, IntoOutcome};
use sqs_once::key::{JsonPointer, MessageId};
use sqs_once::policy::MissingKey;
use sqs_once::{
    Batch, BusinessKey, Consumer, HandlerError, IdempotencyToken, ResultExt, State, Writes,
    consumer,
};

#[derive(Deserialize)]
struct Order {
    id: Option<String>,
    #[serde(default)]
    ends: String,
}

/// An order's ID, and the token that the handler received.
type Handled = (Option<String>, String);

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Handled>>>);

impl Seen {
    fn take(&self) -> Vec<Handled> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn note(
    order: Order,
    token: IdempotencyToken,
    key: Key,
    attempt: Attempt,
    State(seen): State<Seen>,
) -> Result<(), HandlerError> {
    assert!(attempt.fence().get() > 0 && key.item_id().as_str().starts_with("test#"));
    seen.0.lock().unwrap().push((order.id, token.to_string()));
    match order.ends.as_str() {
        "badly" => Err("no luck")?,
        "for good" => Err("no use").terminal(),
        "by panic" => panic!("what a surprise"),
        "never" => std::future::pending().await,
        _ => Ok(()),
    }
}

fn noting(bench: &Bench) -> (Consumer, Seen) {
    let seen = Seen::default();
    let noting = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .state(seen.clone())
        .handler(note);
    (bench.consumer(noting), seen)
}

const KEYLESS: &str = "without a business key: not protected against duplicates";

#[tokio::test(start_paused = true)]
async fn by_default_a_record_without_a_key_is_terminal() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    for consumer in [consumer.clone().missing_key(MissingKey::Terminal), consumer] {
        assert_eq!(bench.invoke(&consumer, event([body("{}")])).await, ["m-0"]);
        assert_eq!(bench.outcomes(), outcomes([("m-0", "terminal")]));
    }
    assert!(seen.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_can_be_sent_back_to_the_queue() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::Retry);
    let records = [body("{}"), body(r#"{"id": ""}"#), body(r#"{"id": "a"}"#)];
    assert_eq!(
        bench.invoke(&consumer, event(records)).await,
        ["m-0", "m-1"]
    );
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "failed"), ("m-1", "terminal"), ("m-2", "processed")])
    );
    assert_eq!(seen.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_record_runs_every_time_without_a_claim_and_its_line_says_so() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    for _ in 0..2 {
        let records = [body("{}"), body(r#"{"id": "a"}"#), body("{}")];
        assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    }
    let ids: Vec<_> = seen.take().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids.iter().filter(|id| id.is_none()).count(), 4);
    assert_eq!(ids.iter().filter(|id| id.is_some()).count(), 1);
    assert_eq!(
        bench.store.take_calls(),
        [("claim", 1), ("settle", 1), ("claim", 1)]
    );
    let lines = bench.log.take("sqs_once::record");
    let keyless = lines.iter().filter(|line| line["message_id"] != "m-1");
    for line in keyless {
        assert_eq!(line["outcome"], "processed");
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["reason"], KEYLESS);
        assert!(!line.contains_key("key"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_record_that_fails_is_returned_and_says_both() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    let ends = |how: &str| body(&json!({ "ends": how }).to_string());
    let records = ["badly", "for good", "by panic", "never", "well"].map(ends);
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3"]);
    let mut lines = bench.log.take("sqs_once::record");
    lines.sort_by_key(|line| line["message_id"].clone());
    let told = lines.iter().map(|line| {
        assert!(line["reason"].ends_with(KEYLESS), "{line:?}");
        (line["outcome"].as_str(), line["reason"].split("; ").next())
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told[0], ("failed", Some("no luck")));
    assert_eq!(told[1], ("terminal", Some("no use")));
    assert_eq!(told[2], ("failed", Some("panicked: what a surprise")));
    assert!(told[3].1.unwrap().contains("cancelled at the deadline"));
    assert!(bench.store.take_calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_function_or_a_tuple_that_lacks_a_part_of_its_key_has_no_key() {
    let bench = Bench::new();
    let by_function = consumer::<Order>()
        .key(|order: &Order| BusinessKey::new(&("order", &order.id)))
        .handler(async |_: Order| {});
    let by_tuple = consumer::<Order>()
        .key((MessageId, JsonPointer::new("/id")))
        .handler(async |_: Order| {});
    for consumer in [by_function, by_tuple] {
        let consumer = bench.consumer(consumer).missing_key(MissingKey::Retry);
        assert_eq!(bench.invoke(&consumer, event([body("{}")])).await, ["m-0"]);
        assert_eq!(bench.outcomes(), outcomes([("m-0", "failed")]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_unusable_is_terminal_whatever_the_policy() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    let long = json!({ "id": "x".repeat(5000) }).to_string();
    let records = [body(r#"{"id": " "}"#), body(&long), body(r#"{"id": 7}"#)];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2"]);
    assert!(bench.outcomes().iter().all(|(_, what)| what == "terminal"));

    let failing = sqs_once::consumer::<Value>()
        .key(|_: &Value| Err::<String, _>("no key in it"))
        .handler(async |_: Value| {});
    let failing = bench
        .consumer(failing)
        .missing_key(MissingKey::ProcessUnprotected);
    assert_eq!(bench.invoke(&failing, event([body("{}")])).await, ["m-0"]);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "terminal")]));
    assert!(seen.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_token_of_an_unprotected_record_is_its_messages_own() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    for _ in 0..2 {
        let mut named = body(r#"{"id": "m-0"}"#);
        named["messageId"] = json!("other");
        let records = [body("{}"), body("{}"), named];
        bench.invoke(&consumer, event(records)).await;
    }
    let tokens: Vec<_> = seen.take().into_iter().map(|(_, token)| token).collect();
    let mut keyless: Vec<_> = tokens.clone();
    keyless.sort();
    keyless.dedup();
    assert_eq!(tokens.len(), 5);
    assert_eq!(keyless.len(), 3, "{tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn in_a_message_group_unprotected_records_keep_their_order() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    let grouped = |text: &str| {
        let mut record = body(text);
        record["attributes"] = json!({ "MessageGroupId": "g" });
        record["eventSourceARN"] = json!(FIFO);
        record
    };
    let records = [
        r#"{"id": "a"}"#,
        "{}",
        r#"{"id": "b"}"#,
        r#"{"ends": "badly"}"#,
        r#"{"id": "c"}"#,
    ];
    let failed = bench.invoke(&consumer, event(records.map(grouped))).await;
    assert_eq!(failed, ["m-3", "m-4"]);
    let ids: Vec<_> = seen.take().into_iter().map(|(id, _)| id).collect();
    let id = |id: &str| Some(id.to_owned());
    assert_eq!(ids, [id("a"), None, id("b"), None]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_unprotected_records_all_run() {
    let mut bench = Bench::new();
    bench.timeout = Duration::from_secs(900);
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    let records = (0..10_000).map(|_| body("{}"));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(seen.take().len(), 10_000);
}

/// A custom outcome whose type does not show that it contains writes.
struct Reserved(Writes);

impl IntoOutcome for Reserved {
    fn into_outcome(self) -> Result<Done, HandlerError> {
        self.0.into_outcome()
    }
}

#[tokio::test(start_paused = true)]
async fn writes_without_a_key_are_never_acknowledged_unwritten() {
    let bench = Bench::new();
    let key = |order: &Order| order.id.clone();
    let alone = consumer::<Order>()
        .key(key)
        .handler(async |_: Order| Reserved(Writes::new()));
    let together = consumer::<Order>()
        .key(key)
        .batch_handler(async |orders: Batch<Order>| {
            let mut outcome = orders.outcome();
            for order in &orders {
                outcome.ended(order, Writes::new());
            }
            outcome
        });
    for (consumer, id) in [(alone, "a"), (together, "b")] {
        let consumer = bench.consumer(consumer);
        let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
        let keyed = body(&json!({ "id": id }).to_string());
        let failed = bench.invoke(&consumer, event([body("{}"), keyed])).await;
        assert_eq!(failed, ["m-0"]);
        let ended = outcomes([("m-0", "terminal"), ("m-1", "processed")]);
        assert_eq!(bench.outcomes(), ended);
        assert_eq!(bench.store.take_commits().len(), 1);
    }
}
