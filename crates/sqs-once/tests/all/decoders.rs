//! Bodies that are not JSON.

use std::sync::{Arc, Mutex};

use crate::support::{Bench, Line, Order, body, event, order, outcomes};
use serde_json::Value;
use sqs_once::body::{Bytes, Decode, DecodeError, Json, Text};
use sqs_once::extract::Message;
use sqs_once::key::MessageAttribute;
use sqs_once::{Consumer, consumer_with};

/// A consumer whose payload is its own key, and the payloads that its handler received.
fn noting<T>(bench: &Bench, decoder: impl Decode<T>) -> (Consumer, Arc<Mutex<Vec<T>>>)
where
    T: Clone + sqs_once::key::KeyPart + Send + 'static,
{
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let seen = Arc::clone(&seen);
        consumer_with(decoder)
            .key(|payload: &T| payload.clone())
            .handler(move |payload: T| {
                seen.lock().unwrap().push(payload);
                async {}
            })
    };
    (bench.consumer(noting), seen)
}

fn line(bench: &Bench, message_id: &str) -> Line {
    let lines = bench.log.take("sqs_once::record");
    let line = |line: &Line| line["message_id"] == message_id;
    lines.into_iter().find(line).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_text_is_handed_over_as_it_stands() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench, Text);
    let texts = ["  not json\n", "{\"id\": 1}", "é"];
    let failed = bench.invoke(&consumer, event(texts.map(body))).await;
    assert!(failed.is_empty());
    assert_eq!(*seen.lock().unwrap(), texts);
    assert!(bench.invoke(&consumer, event([body("é")])).await.is_empty());
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn base64_is_handed_over_as_bytes_with_or_without_padding() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench, Bytes);
    let bodies = ["AP8=", "AQI", "+/8="].map(body);
    assert!(bench.invoke(&consumer, event(bodies)).await.is_empty());
    let expected = [vec![0, 255], vec![1, 2], vec![251, 255]];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_base64_is_terminal_alone_and_shows_no_byte_of_it() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench, Bytes);
    let bodies = ["AP8=", "4111-1111", "A", "-_8="].map(body);
    let failed = bench.invoke(&consumer, event(bodies)).await;
    assert_eq!(failed, ["m-1", "m-2", "m-3"]);
    assert_eq!(seen.lock().unwrap().len(), 1);
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    let line = line(&bench, "m-1");
    assert_eq!(line["outcome"], "terminal");
    assert_eq!(
        line["reason"],
        "the body is not base64 of the standard alphabet"
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_body_is_terminal_whatever_the_decoder() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench, Text);
    let failed = bench
        .invoke(&consumer, event([serde_json::json!({})]))
        .await;
    assert_eq!(failed, ["m-0"]);
    assert_eq!(line(&bench, "m-0")["reason"], "the message has no body");
}

/// Numbers in hexadecimal, or in the base that an attribute sets.
struct Digits;

impl Decode<u64> for Digits {
    fn decode(&self, body: &str, message: &Message) -> Result<u64, DecodeError> {
        let radix = message.attribute("radix").unwrap_or("16");
        let radix = radix.parse().unwrap();
        u64::from_str_radix(body, radix).map_err(|_| DecodeError::other("they are no digits"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_decoder_of_ones_own_sees_body_and_message_and_its_words_are_the_reason() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench, Digits);
    let mut octal = body("17");
    octal["messageAttributes"] =
        serde_json::json!({ "radix": { "dataType": "Number", "stringValue": "8" } });
    let batch = [body("ff"), octal, body("secret")];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-2"]);
    assert_eq!(*seen.lock().unwrap(), [255, 15]);
    assert_eq!(
        line(&bench, "m-2")["reason"],
        "the body could not be decoded: they are no digits"
    );
}

#[tokio::test(start_paused = true)]
async fn a_decoder_that_panics_makes_its_record_terminal_alone() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench, Digits);
    let mut broken = body("1");
    broken["messageAttributes"] =
        serde_json::json!({ "radix": { "dataType": "String", "stringValue": "4111-1111" } });
    let batch = [body("1"), broken, body("2")];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-1"]);
    assert_eq!(*seen.lock().unwrap(), [1, 2]);
    assert_eq!(
        bench.outcomes(),
        outcomes([
            ("m-0", "processed"),
            ("m-1", "terminal"),
            ("m-2", "processed")
        ])
    );
    assert!(!bench.log.all().contains("4111"));
}

#[tokio::test(start_paused = true)]
async fn json_asked_for_by_name_is_the_default() {
    let bench = Bench::new();
    let by_name = consumer_with::<Order>(Json)
        .key(|order: &Order| order.id.clone())
        .handler(async |_: Order| {});
    let (by_default, seen) = crate::support::noting(&bench);
    let batch = || event([order("a"), body("secret")]);
    let by_name = bench.consumer(by_name);
    assert_eq!(bench.invoke(&by_name, batch()).await, ["m-1"]);
    let told = line(&bench, "m-1");
    assert_eq!(bench.invoke(&by_default, batch()).await, ["m-1"]);
    assert_eq!(line(&bench, "m-1")["reason"], told["reason"]);
    assert!(seen.lock().unwrap().is_empty(), "a duplicate ran");
}

#[tokio::test(start_paused = true)]
async fn the_whole_body_is_the_fingerprint_of_what_is_not_json_too() {
    let bench = Bench::new();
    let text = consumer_with(Text)
        .key(MessageAttribute::new("order-id"))
        .handler(async |_: String| {});
    let consumer = bench.consumer(text);
    let said = |text: &str| -> Value {
        let mut record = body(text);
        record["messageAttributes"] =
            serde_json::json!({ "order-id": { "dataType": "String", "stringValue": "o-1" } });
        record
    };
    let batch = [said("one"), said("one"), said("two")];
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    let lines = bench.log.take("sqs_once::record");
    let warned: Vec<_> = lines
        .iter()
        .filter(|line| line["level"] == "WARN")
        .collect();
    assert_eq!(warned.len(), 1);
    assert_eq!(warned[0]["message_id"], "m-2");
}
