//! Messages whose body is in S3.

use serde_json::{Value, json};
use sqs_once::body::{LargeMessages, Sns};
use sqs_once::extract::Message;
use sqs_once::testing::{Answer, Bench, Event, Record};
use sqs_once::{Consumer, Handler};
use std::sync::Arc;

use crate::router::{self, Done};
use crate::support::envelope_bench::publication;
use crate::support::s3::{S3, Turn};
use crate::support::sqs::Sqs;
use crate::support::{DLQ, Log, Notes, Order, assert_contains, codes, orders};

pub(crate) const BUCKET: &str = "large-messages";
/// The queue of records in tests.
pub(crate) const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";
pub(crate) const REFUNDS: &str = "arn:aws:sqs:eu-central-1:123456789012:refunds";
pub(crate) const CLASS: &str = "software.amazon.payloadoffloading.PayloadS3Pointer";
pub(crate) const ORDER: &str = r#"{"id":"o-1"}"#;
const LEGACY_CLASS: &str = "com.amazon.sqs.javamessaging.MessageS3Pointer";

pub(crate) fn settings(s3: &S3) -> LargeMessages {
    LargeMessages::for_queue(QUEUE, "large-messages/*").client(s3.client())
}

/// An S3 whose only object is an order.
pub(crate) fn with_order(key: &str) -> S3 {
    let s3 = S3::default();
    s3.put(&format!("{BUCKET}/{key}"), ORDER);
    s3
}

/// A consumer that notes its orders: `orders o-1`.
pub(crate) fn noting(settings: LargeMessages, handled: &Done) -> Consumer {
    Consumer::new(router::noting("orders", handled)).large_messages(settings)
}

pub(crate) fn pointer(bucket: &str, key: &str) -> String {
    json!([CLASS, { "s3BucketName": bucket, "s3Key": key }]).to_string()
}

/// The message was processed, or is terminal for this reason.
pub(crate) fn assert_ended(answer: &Answer, why: Option<&str>) {
    match why {
        None => answer.assert_processed("m-1"),
        Some(why) => answer.assert_terminal("m-1").assert_reason("m-1", why),
    };
}

/// Handles a message with this body. Returns the answer and the IDs of the handled orders.
async fn handled(settings: LargeMessages, body: &str) -> (Answer, Vec<String>) {
    let handled = Notes::default();
    let bench = Bench::new(noting(settings, &handled));
    let answer = bench.run(Event::new([Record::text(body)])).await;
    (answer, handled.take())
}

#[tokio::test(start_paused = true)]
async fn the_pointers_of_all_libraries_are_followed() {
    for body in [
        pointer(BUCKET, "orders/1"),
        // Python puts spaces in.
        format!(r#"["{CLASS}", {{"s3BucketName": "{BUCKET}", "s3Key": "orders/1"}}]"#),
        format!(r#" [ "{LEGACY_CLASS}" , {{"s3Key":"orders/1","s3BucketName":"{BUCKET}"}} ] "#),
    ] {
        let s3 = with_order("orders/1");
        let (answer, handled) = handled(settings(&s3), &body).await;
        answer.assert_processed("m-1");
        assert_eq!(handled, ["orders o-1"], "{body}");
        assert_eq!(s3.requests(), ["GET large-messages/orders/1"]);
        assert_eq!(s3.paths().len(), 1, "a lifecycle rule deletes it");
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_body_is_the_body() {
    let s3 = S3::default();
    let keyed = Handler::json::<Value>().key(|body: &Value| body.to_string());
    let consumer = Consumer::new(keyed.call(async |_: Value| {}));
    let place = json!({ "s3BucketName": BUCKET, "s3Key": "k" });
    let bodies = [
        json!({ "id": "o-1" }),
        json!([]),
        json!(["software.amazon.payloadoffloading.Other", place]),
        json!([[CLASS, place]]),
        place,
    ];
    let event = Event::new(bodies.iter().map(Record::json));
    let bench = Bench::new(consumer.large_messages(settings(&s3)));
    bench.run(event).await.assert_all_acknowledged();
    assert_eq!(s3.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_no_retry_can_fetch_is_terminal_and_keeps_its_reason_short() {
    let long = "x".repeat(1_000_000);
    let of = |value: Value| value.to_string();
    let missing = "the object with the body is missing (s3://large-messages/orders/1)";
    let archived = Turn::Refuse(403, "InvalidObjectState");
    let malformed = "the body is a malformed pointer to S3";
    let not_ours = "another object than its queue's, which are large-messages/*";
    let ours = || pointer(BUCKET, "orders/1");
    for (turn, body, why) in [
        (Turn::Do, ours(), missing),
        (archived, ours(), "archived: restore it"),
        (Turn::Parts(vec![Some(b"\xff")]), ours(), "not UTF-8"),
        (Turn::Do, pointer("secrets", "canary-1"), not_ours),
        (Turn::Do, pointer(&long, "canary-1"), not_ours),
        (Turn::Do, of(json!([CLASS])), malformed),
        (Turn::Do, of(json!([CLASS, "canary-1"])), malformed),
        (Turn::Do, of(json!([CLASS, { "s3Key": "k" }])), malformed),
        (Turn::Do, format!(r#"["{CLASS}", "#), malformed),
    ] {
        let log = Log::capture();
        let (answer, handled) = handled(settings(&S3::always(turn)), &body).await;
        let lines = log.take("sqs_once::record");
        assert_eq!(codes(&lines), "terminal: body-not-fetched");
        answer.assert_terminal("m-1").assert_reason("m-1", why);
        let reason = answer.reason("m-1").unwrap();
        assert!(!reason.contains("canary") && reason.len() < 300, "{reason}");
        assert_eq!(handled, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_later_delivery_may_fetch_returns_to_the_queue() {
    let stalls = Turn::Parts(vec![Some(b"{"), None]);
    for (turn, why) in [
        (Turn::Refuse(403, "AccessDenied"), "must allow s3:GetObject"),
        (Turn::Refuse(404, "NoSuchBucket"), "no bucket has the name"),
        (Turn::Refuse(301, "PermanentRedirect"), "in another Region"),
        (Turn::Refuse(503, "SlowDown"), "S3 answered SlowDown"),
        (Turn::LoseAnswer, "the connection was closed"),
        (Turn::Break(b"{"), "the connection was reset"),
        (Turn::Parts(vec![]), "the body is empty"),
        (stalls, "sent nothing of the body for 2 s"),
    ] {
        let settings = settings(&S3::always(turn));
        let (answer, handled) = handled(settings, &pointer(BUCKET, "orders/1")).await;
        answer.assert_failed("m-1").assert_reason("m-1", why);
        answer.assert_retried(["m-1"]);
        let reason = answer.reason("m-1").unwrap();
        assert_contains!(reason, "S3", "(s3://large-messages/orders/1)");
        assert_eq!(handled, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_max_size_is_read_and_a_body_larger_than_all_memory_is_terminal() {
    let s3 = with_order("orders/1");
    // Without a length, S3 could send more and more.
    let endless = S3::always(Turn::Parts(vec![Some(b"123456"), Some(b"789012"), None]));
    let too_large = "the body has 12 bytes or more, and the consumer's `max_size` is 11";
    let no_memory = "the consumer's `max_memory` is 11";
    for (settings, why) in [
        (settings(&s3).max_size(ORDER.len()), None),
        (settings(&s3).max_size(ORDER.len() - 1), Some(too_large)),
        (settings(&endless).max_size(11), Some("12 bytes or more")),
        (settings(&s3).max_memory(ORDER.len() - 1), Some(no_memory)),
    ] {
        let (answer, _) = handled(settings, &pointer(BUCKET, "orders/1")).await;
        assert_ended(&answer, why);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_can_name_only_the_objects_of_their_queue() {
    let long = format!("orders/{}", "x".repeat(1018));
    let s3 = || S3::always(Turn::Parts(vec![Some(ORDER.as_bytes())]));
    let settings = |s3: &S3| {
        let settings = LargeMessages::for_queue(QUEUE, "large-messages/orders/*");
        settings.client(s3.client())
    };
    let others = "refunds/1 orders orders/ orders-of-others/1 Orders/1 /orders/1 refunds/orders/1 orders%2F1 orders\\1 \
                  \0orders/1 orders/../refunds/1 orders/./1 orders/..";
    let others = others.split(' ').chain([&*long, ""]);
    let elsewhere = [
        ("large-messages/orders", "1"),
        ("large-messages-2", "orders/1"),
        ("", "large-messages/orders/1"),
    ];
    for (bucket, key) in others.map(|key| (BUCKET, key)).chain(elsewhere) {
        let (s3, handled) = (s3(), Notes::default());
        let bench = Bench::new(noting(settings(&s3), &handled));
        let run = async |body: &str| bench.run(Event::new([Record::text(body)])).await;
        let why = "another object than its queue's, which are large-messages/orders/*";
        assert_ended(&run(&pointer(bucket, key)).await, Some(why));
        assert_eq!(s3.requests(), [""; 0], "{key:?}");
        run(ORDER).await.assert_processed("m-1");
        assert_eq!(handled.take(), ["orders o-1"], "the key is free");
    }
    for key in [
        "orders/1",
        "orders//1",
        "orders/..a/b.",
        "orders/%2E%2E/é ?#+&*",
        &long[..1024],
    ] {
        let (answer, _) = handled(settings(&s3()), &pointer(BUCKET, key)).await;
        answer.assert_processed("m-1");
    }
}

#[tokio::test(start_paused = true)]
async fn each_queue_of_a_function_has_its_own_objects() {
    let s3 = S3::always(Turn::Parts(vec![Some(ORDER.as_bytes())]));
    let settings = LargeMessages::for_queue(QUEUE, "large-messages/orders/*")
        .and_queue(REFUNDS, "large-messages/refunds/*")
        .and_queue(REFUNDS, "theirs/*")
        .client(s3.client());
    let namesake = "arn:aws:sqs:eu-central-1:210987654321:orders";
    let orders_only = "another object than its queue's, which are large-messages/orders/*";
    let refunds_only = "which are large-messages/refunds/*, theirs/*";
    let none = |queue| format!("its queue \"{queue}\" has no objects there");
    for (queue, bucket, key, why) in [
        (QUEUE, BUCKET, "orders/1", ""),
        (QUEUE, BUCKET, "refunds/1", orders_only),
        (QUEUE, "theirs", "1", orders_only),
        (REFUNDS, BUCKET, "refunds/1", ""),
        (REFUNDS, "theirs", "1", ""),
        (REFUNDS, BUCKET, "orders/1", refunds_only),
        (namesake, BUCKET, "orders/1", &none(namesake)),
        ("", BUCKET, "orders/1", &none("")),
    ] {
        let bench = Bench::new(noting(settings.clone(), &Notes::default()));
        let event = Event::new([Record::text(pointer(bucket, key))]);
        let event = Event::from_json(event.as_json().replace(QUEUE, queue));
        let why = Some(why).filter(|why| !why.is_empty());
        assert_ended(&bench.run(event).await, why);
        let requests = usize::from(why.is_none());
        assert_eq!(s3.requests().len(), requests, "{queue} {key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_dead_letter_queue_gets_the_pointer() {
    let (s3, sqs) = (S3::default(), Sqs::default());
    s3.put("large-messages/canary-1", r#"{"id":"hopeless-1"}"#);
    let consumer = noting(settings(&s3), &Notes::default());
    let bench = Bench::new(consumer.queue(sqs.queue().dead_letter_queue(DLQ)));
    let body = pointer(BUCKET, "canary-1");
    let answer = bench.run(Event::new([Record::text(&body)])).await;
    answer.assert_terminal("m-1").assert_all_acknowledged();
    assert_eq!(sqs.asked("SendMessage")[0]["MessageBody"], *body);
    assert_eq!(s3.paths(), ["large-messages/canary-1"], "redrive needs it");
}

#[tokio::test(start_paused = true)]
async fn the_body_behind_an_envelope_is_fetched_and_is_what_the_handler_sees_of_the_message() {
    let s3 = with_order("canary-1");
    let (contents, notes) = Notes::pair();
    let noting = notes.of_both(|order: Order, meta: Arc<Message>| {
        (order.id, meta.content().unwrap_or_default().to_owned())
    });
    let handler = orders().call(noting);
    let consumer = Consumer::new(handler.envelope(Sns)).large_messages(settings(&s3));
    let record = Record::text(publication("n-1", &pointer(BUCKET, "canary-1")));
    let answer = Bench::new(consumer).run(Event::new([record])).await;
    answer.assert_processed("m-1");
    assert_eq!(contents.take(), [("o-1".to_owned(), ORDER.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn the_key_and_the_payload_of_a_duplicate_are_those_of_the_body() {
    let s3 = with_order("canary-1");
    s3.put("large-messages/key-2", ORDER);
    let handled = Notes::default();
    let bench = Bench::new(noting(settings(&s3), &handled));
    let [first, second] = ["canary-1", "key-2"].map(|key| pointer(BUCKET, key));
    let event = Event::new([&first, &second, ORDER].map(Record::text));
    let answer = bench.run(event).await;
    answer.assert_processed("m-1");
    answer.assert_duplicate("m-2").assert_duplicate("m-3");
    assert_eq!(handled.take(), ["orders o-1"]);
}

#[tokio::test(start_paused = true)]
async fn records_whose_body_does_not_come_by_the_deadline_return_alone() {
    let s3 = S3::turns([Turn::Hang]);
    s3.put("large-messages/canary-1", ORDER);
    let handled = Notes::default();
    let bench = Bench::new(noting(settings(&s3), &handled));
    let records = [0, 1].map(|_| Record::text(pointer(BUCKET, "canary-1")));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_retried(["m-1"]).assert_processed("m-2");
    answer.assert_reason("m-1", "the deadline came before its payload was there");
    assert_eq!(handled.take(), ["orders o-1"]);
}
