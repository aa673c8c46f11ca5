//! Bodies that are not JSON, or not the payload's. Bad input never causes a panic, a stall or a shared key.

use std::io::Write;

use crate::support::envelope_bench::publication;
use crate::support::{
    self, Bench, Notes, Order, Seen, Tested, assert_contains, body, codes, json_body, order,
    with_attribute,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use sqs_once::body::{Base64, Decode, DecodeError, Gzip, Json, Sns, Text};
use sqs_once::extract::Message;
use sqs_once::key::{KeyPart, MessageKey};
use sqs_once::testing::{self, Event, Record};
use sqs_once::{Batch, BatchOutcome, Handler, State, batch_handler, handler};

/// A consumer whose payload is its own key, and the payloads that its handler received.
fn noting<T>(decoder: impl Decode<T>) -> (Tested, Notes<T>)
where
    T: Clone + KeyPart + Send + 'static,
{
    let (seen, notes) = Notes::pair();
    let keyed = Handler::decode(decoder).key(|payload: &T| payload.clone());
    let noting = keyed.call(notes.of(|payload: T| payload));
    (Bench::new().on(noting), seen)
}

#[tokio::test(start_paused = true)]
async fn a_text_is_handed_over_as_it_stands() {
    let (bench, seen) = noting(Text);
    let texts = ["  not json\n", "{\"id\": 1}", "é"];
    assert_eq!(bench.run(texts.map(body)).await, [""; 0]);
    assert_eq!(seen.take(), texts);
    assert_eq!(bench.run([body("é")]).await, [""; 0]);
    assert_eq!(seen.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn base64_is_handed_over_as_bytes_and_all_else_is_terminal_alone_and_shows_no_byte_of_it() {
    let (bench, seen) = noting(Base64);
    // With or without padding and line breaks, and in the alphabet for URLs.
    let bodies = ["AP8=", "AQI", "+/8=", "-_4=", "AAAA\r\nAAAA\n", "AQM\n"].map(body);
    assert_eq!(bench.run(bodies).await, [""; 0]);
    let expected: [&[u8]; 6] = [
        &[0, 255],
        &[1, 2],
        &[251, 255],
        &[251, 254],
        &[0; 6],
        &[1, 3],
    ];
    assert_eq!(seen.take(), expected);
    bench.lines();
    bench.store.take_calls();
    let bodies = ["AP4=", "4111-1111", "A", "{}"].map(body);
    assert_eq!(bench.run(bodies).await, ["m-1", "m-2", "m-3"]);
    assert_eq!(seen.take().len(), 1);
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    let line = &bench.lines()[1];
    assert_eq!(line["outcome"], "terminal");
    assert_eq!(line["reason"], "the body is not base64");
}

fn gzip(text: &[u8]) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).unwrap();
    BASE64_STANDARD.encode(encoder.finish().unwrap())
}

#[tokio::test(start_paused = true)]
async fn gzip_is_opened_for_another_decoder_unless_it_is_broken_or_expands_too_much() {
    let (seen, notes) = Notes::pair();
    let keyed = Handler::decode(Gzip(Text)).key(MessageKey::message_id());
    let bench = Bench::new().on(keyed.call(notes.of(|text: String| text.len())));
    let longest = 16 * 1024 * 1024;
    let bodies = ["", "o-1", &"x".repeat(longest)].map(|text| body(&gzip(text.as_bytes())));
    assert_eq!(bench.run(bodies).await, [""; 0]);
    assert_eq!(seen.take(), [0, 3, longest]);

    bench.lines();
    let cut = &gzip(b"o-1 o-2 o-3")[..24];
    let bomb = gzip(&vec![b'x'; longest + 1]);
    let no_data = "the body is not gzip: the data is broken";
    let no_text = "the body is not gzip: its text is not UTF-8, or the data is broken";
    let too_long = "the body is not gzip: its text is longer than 16 MiB";
    for (broken, reason) in [
        ("o-1!", "the body is not base64"),
        ("AAAA", no_data),
        (cut, no_data),
        (&*gzip(b"\xff"), no_text),
        (&*bomb, too_long),
    ] {
        assert_eq!(bench.run([body(broken)]).await, ["m-0"]);
        assert_eq!(bench.lines()[0]["reason"], reason);
    }
}

#[derive(Deserialize)]
struct Wrapped<T>(T);

#[tokio::test(start_paused = true)]
async fn a_list_is_no_struct_and_stays_a_list_or_a_tuple() {
    let list = r#" ["o-1"]"#;
    let reason = "invalid type: sequence, expected struct Order";
    assert_contains!(reasons::<Order>(&[list]).await[0], reason);
    assert_contains!(reasons::<Option<Order>>(&[list]).await[0], reason);
    assert_contains!(reasons::<Box<Order>>(&[list]).await[0], reason);
    assert_contains!(reasons::<Wrapped<Order>>(&[list]).await[0], reason);
    fn taken<T: DeserializeOwned + Send + 'static>(list: &'static str) -> impl Future {
        let keyed = Handler::decode(Json).key(MessageKey::message_id());
        let bench = Bench::new().on(keyed.call(async |_: T| {}));
        async move { assert_eq!(bench.run([body(list)]).await, [""; 0]) }
    }
    taken::<Vec<String>>(list).await;
    taken::<(String,)>(list).await;
    taken::<Option<[String; 1]>>(list).await;
    taken::<Wrapped<Vec<String>>>(list).await;
    taken::<serde_json::Value>(list).await;
    // What is inside is serde's.
    taken::<Vec<Order>>(r#"[["o-1"], {"id": "o-2"}]"#).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_in_an_envelope_that_was_not_declared_names_it() {
    let sns = r#"{"Type": "Notification", "TopicArn": "arn", "Message": "{}"}"#;
    let event = r#"{"detail-type": "Placed", "detail": {}}"#;
    let reasons = reasons::<Order>(&[sns, event, "{}"]).await;
    assert_contains!(reasons[0], "declare `envelope = Sns`");
    assert_contains!(reasons[1], "declare `envelope = EventBridge`");
    assert!(!reasons[2].contains("envelope"), "{}", reasons[2]);
}

/// Numbers in hexadecimal, or in the base that an attribute sets.
struct Digits;

impl Decode<u64> for Digits {
    fn decode(&self, body: &str, message: &Message) -> Result<u64, DecodeError> {
        // Its debug form names the message and shows no body.
        let shown = format!("Message {{ id: {:?}, .. }}", message.id());
        assert_eq!(format!("{message:?}"), shown);
        let radix = message.attribute("radix").unwrap_or("16");
        let radix = radix.parse().unwrap();
        u64::from_str_radix(body, radix).map_err(|_| DecodeError::other("they are no digits"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_decoder_of_ones_own_sees_body_and_message_and_its_words_or_its_panic_end_a_record_alone()
{
    let (bench, seen) = noting(Digits);
    let octal = with_attribute(body("17"), "radix", "8");
    let broken = with_attribute(body("1"), "radix", "4111-1111");
    let records = [body("ff"), body("canary"), broken, octal];
    assert_eq!(bench.run(records).await, ["m-1", "m-2"]);
    assert_eq!(seen.take(), [255, 15]);
    let lines = bench.lines();
    let told = "terminal: body-unreadable, terminal: preparation-panicked";
    assert_eq!(codes(&lines[1..3]), told);
    let reason = "the body could not be decoded: they are no digits";
    assert_eq!(lines[1]["reason"], reason);
}

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "order_id")]
    _underscore: u64,
    #[serde(rename = "order-id")]
    _hyphen: u64,
    #[serde(rename = "order id")]
    _blank: u64,
}

/// A text with other characters could be part of a value.
#[tokio::test(start_paused = true)]
async fn a_missing_field_is_named_if_its_name_is_one_word() {
    let both = r#"{"order_id": 1, "order-id": 1}"#;
    for (body, expected) in [
        ("{}", "missing field `order_id`"),
        (r#"{"order_id": 1}"#, "missing field `order-id`"),
        (both, "the payload type rejects a value"),
    ] {
        let reasons = reasons::<Named>(&[body]).await;
        let why = "the body does not fit the payload type: ";
        assert_contains!(reasons[0], why, expected);
    }
}

async fn reasons<T: DeserializeOwned + Send + 'static>(bodies: &[&str]) -> Vec<String> {
    let keyed = Handler::decode(Json).key(MessageKey::attribute("key"));
    let bench = Bench::new().on(keyed.call(async |_: T| {}));
    let failed = bench.run(bodies.iter().map(|text| body(text))).await;
    assert_eq!(failed.len(), bodies.len());
    let lines = bench.lines().into_iter();
    lines.map(|line| line["reason"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_whole_body_is_the_fingerprint_of_what_is_not_json_too() {
    let text = Handler::decode(Text).key(MessageKey::attribute("order-id"));
    let bench = Bench::new().on(text.call(async |_: String| {}));
    let said = |text: &str| with_attribute(body(text), "order-id", "o-1");
    assert_eq!(bench.run(["one", "one", "two"].map(said)).await, ["m-2"]);
    assert_eq!(bench.outcomes(), "processed duplicate terminal");
}

#[handler(key = line, decode = Text, envelope = Sns, namespace = "test")]
async fn unwrapped(line: String, State(seen): State<Seen>) {
    seen.add(line);
}

#[batch_handler(key = |line| line, decode = Text, envelope = Sns, namespace = "test")]
async fn together(lines: Batch<String>, State(seen): State<Seen>) -> BatchOutcome {
    lines.payloads().for_each(|line| seen.add(line.clone()));
    lines.all_succeeded()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_opened_and_decoded_as_the_attribute_says_also_for_a_batch_handler() {
    let seen = Seen::default();
    let alone = unwrapped::consumer(seen.clone());
    for consumer in [alone, together::consumer(seen.clone())] {
        let published = Record::text(publication("p-1", "no json"));
        let event = Event::new([published.clone(), published]);
        let answer = testing::Bench::new(consumer).run(event).await;
        answer.assert_all_acknowledged();
        assert_eq!(seen.take(), ["no json"]);
    }
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_fail_or_run_but_neither_panic_nor_stall() {
    let (bench, seen) = support::noting();
    let deep = "[".repeat(200_000);
    let deep_inside = format!(r#"{{"id": "deep", "x": {deep}{}}}"#, "]".repeat(200_000));
    let megabyte = format!(r#"{{"id": "big", "x": "{}"}}"#, "y".repeat(1 << 20));
    let records = [
        body(&deep),
        body(&deep_inside),
        body(&megabyte),
        body(r#"{"id": "\ud800"}"#),
        body(r#"{"id": "ok", "x": "\ud800"}"#),
        body(r#"{"id": "twice", "id": "again"}"#),
        body("{\"id\": \"nul\\u0000\"}"),
        body("\u{0}"),
        body("1e999999"),
        order("a"),
    ];
    let failed = bench.run(records).await;
    for id in ["m-0", "m-3", "m-7", "m-8"] {
        assert!(failed.iter().any(|failed| failed == id), "{id} ran");
    }
    let seen = seen.take();
    for id in ["big", "nul\0", "a"] {
        assert!(seen.iter().any(|seen| seen == id), "{id:?} did not run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_ten_thousand_and_six_megabytes_runs() {
    let (bench, seen) = support::noting();
    let padding = "z".repeat(500);
    let records = (0..10_000).map(|at| json_body(&json!({ "id": at.to_string(), "x": padding })));
    assert_eq!(bench.run(records).await, [""; 0]);
    assert_eq!(seen.len(), 10_000);
}
