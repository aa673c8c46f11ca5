//! Messages whose body is in S3.

use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::MessageAttributeValue;
use serde_json::{Value, json};
use sqs_once::Consumer;
use sqs_once::body::Sns;
use sqs_once::extract::MessageMeta;
use sqs_once::key::ProducerKey;
use sqs_once::large_messages::LargeMessages;
use sqs_once::producer::{Offload, Outgoing, OutgoingError};
use sqs_once::testing::{Answer, Bench, Event, Record};

use crate::support::s3::{S3, Turn};
use crate::support::sqs::Sqs;
use crate::support::{DLQ, Notes, Order, orders};

const BUCKET: &str = "large-messages";
const CLASS: &str = "software.amazon.payloadoffloading.PayloadS3Pointer";
const LEGACY_CLASS: &str = "com.amazon.sqs.javamessaging.MessageS3Pointer";

fn settings(s3: &S3) -> LargeMessages {
    LargeMessages::in_bucket(BUCKET).client(s3.client())
}

/// A consumer that notes the IDs of the orders that it handles.
fn noting(settings: LargeMessages, handled: &Notes<String>) -> Consumer {
    let handled = handled.clone();
    orders()
        .large_messages(settings)
        .namespace("orders")
        .handler(move |order: Order| {
            let handled = handled.clone();
            async move {
                order.obey().await?;
                handled.add(order.id);
                Ok::<_, sqs_once::HandlerError>(())
            }
        })
}

fn pointer(bucket: &str, key: &str) -> String {
    json!([CLASS, { "s3BucketName": bucket, "s3Key": key }]).to_string()
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
        let s3 = S3::default();
        s3.put("large-messages/orders/1", r#"{"id":"o-1"}"#);
        let (answer, handled) = handled(settings(&s3), &body).await;
        answer.assert_processed("m-1");
        assert_eq!(handled, ["o-1"], "{body}");
        assert_eq!(s3.requests(), ["GET large-messages/orders/1"]);
        assert_eq!(s3.paths().len(), 1, "a lifecycle rule deletes it");
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_body_is_the_body() {
    let s3 = S3::default();
    let consumer = sqs_once::consumer::<Value>()
        .key(|body: &Value| body.to_string())
        .large_messages(settings(&s3))
        .handler(async |_: Value| {});
    let bodies = [
        r#"{"id":"o-1"}"#.to_owned(),
        "[]".to_owned(),
        r#"["software.amazon.payloadoffloading.Other",{"s3BucketName":"b","s3Key":"k"}]"#
            .to_owned(),
        json!({ "s3BucketName": BUCKET, "s3Key": "k" }).to_string(),
        json!([[CLASS, { "s3BucketName": BUCKET, "s3Key": "k" }]]).to_string(),
    ];
    let count = bodies.len();
    let event = Event::new(bodies.map(Record::text));
    let answer = Bench::new(consumer).run(event).await;
    for at in 1..=count {
        answer.assert_processed(&format!("m-{at}"));
    }
    assert_eq!(s3.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_no_retry_can_fetch_is_terminal_and_keeps_its_reason_short() {
    let long = "x".repeat(1_000_000);
    let malformed = "the body is a malformed pointer to S3";
    let not_ours = "from which this consumer does not fetch";
    for (turn, body, why) in [
        (
            Turn::Do,
            pointer(BUCKET, "key-1"),
            "missing in the bucket \"large-messages\"",
        ),
        (
            Turn::Refuse(403, "InvalidObjectState"),
            pointer(BUCKET, "key-1"),
            "archived: restore it",
        ),
        (
            Turn::Parts(vec![Some(b"\xff")]),
            pointer(BUCKET, "key-1"),
            "not UTF-8",
        ),
        (Turn::Do, pointer("secrets", "key-1"), not_ours),
        (Turn::Do, pointer(&long, "key-1"), not_ours),
        (Turn::Do, json!([CLASS]).to_string(), malformed),
        (Turn::Do, json!([CLASS, "key-1"]).to_string(), malformed),
        (
            Turn::Do,
            json!([CLASS, { "s3Key": "key-1" }]).to_string(),
            malformed,
        ),
        (Turn::Do, format!(r#"["{CLASS}", "#), malformed),
    ] {
        let s3 = S3::always(turn);
        let (answer, handled) = handled(settings(&s3), &body).await;
        answer.assert_terminal("m-1").assert_reason("m-1", why);
        let reason = answer.reason("m-1").unwrap();
        assert!(!reason.contains("key-1") && reason.len() < 300, "{reason}");
        assert_eq!(handled, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_later_delivery_may_fetch_returns_to_the_queue() {
    for (turn, why) in [
        (Turn::Refuse(403, "AccessDenied"), "must allow s3:GetObject"),
        (Turn::Refuse(404, "NoSuchBucket"), "no bucket has the name"),
        (Turn::Refuse(301, "PermanentRedirect"), "in another Region"),
        (Turn::Refuse(503, "SlowDown"), "S3 answered SlowDown"),
        (Turn::LoseAnswer, "the connection was closed"),
        (Turn::Break(b"{"), "the connection was reset"),
        (Turn::Parts(vec![]), "the body is empty"),
        (
            Turn::Parts(vec![Some(b"{"), None]),
            "sent nothing of the body for 2 s",
        ),
    ] {
        let s3 = S3::always(turn);
        let (answer, handled) = handled(settings(&s3), &pointer(BUCKET, "key-1")).await;
        answer.assert_failed("m-1").assert_reason("m-1", why);
        answer.assert_retried(["m-1"]);
        let reason = answer.reason("m-1").unwrap();
        assert!(!reason.contains("key-1"), "{reason}");
        assert_eq!(handled, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_max_size_is_read() {
    let order = r#"{"id":"o-1"}"#;
    let s3 = S3::default();
    s3.put("large-messages/key-1", order);
    let with = |max_size| settings(&s3).max_size(max_size);
    let body = pointer(BUCKET, "key-1");
    let (answer, _) = handled(with(order.len()), &body).await;
    answer.assert_processed("m-1");
    let (answer, _) = handled(with(order.len() - 1), &body).await;
    answer.assert_terminal("m-1");
    answer.assert_reason(
        "m-1",
        "the body has 12 bytes or more, and the consumer's `max_size` is 11",
    );

    // Without a length, S3 could send more and more.
    let endless = S3::always(Turn::Parts(vec![Some(b"123456"), Some(b"789012"), None]));
    let (answer, _) = handled(settings(&endless).max_size(11), &body).await;
    answer.assert_terminal("m-1");
    answer.assert_reason("m-1", "12 bytes or more");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_may_have_several_buckets() {
    let s3 = S3::default();
    s3.put("theirs/key-1", r#"{"id":"o-1"}"#);
    let settings = settings(&s3).or_bucket("theirs");
    let (answer, _) = handled(settings, &pointer("theirs", "key-1")).await;
    answer.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn the_dead_letter_queue_gets_the_pointer() {
    let (s3, sqs) = (S3::default(), Sqs::default());
    s3.put("large-messages/key-1", r#"{"id":"hopeless-1"}"#);
    let consumer = noting(settings(&s3), &Notes::default())
        .dead_letter_queue(DLQ)
        .sqs_client(sqs.client());
    let body = pointer(BUCKET, "key-1");
    let answer = Bench::new(consumer)
        .run(Event::new([Record::text(&body)]))
        .await;
    answer.assert_terminal("m-1").assert_all_acknowledged();
    assert_eq!(sqs.asked("SendMessage")[0]["MessageBody"], *body);
    assert_eq!(s3.paths(), ["large-messages/key-1"], "redrive needs it");
}

#[tokio::test(start_paused = true)]
async fn the_body_behind_an_envelope_is_fetched_and_is_what_the_handler_sees_of_the_message() {
    let s3 = S3::default();
    s3.put("large-messages/key-1", r#"{"id":"o-1"}"#);
    let contents: Notes<(String, String)> = Notes::default();
    let consumer = orders()
        .envelope(Sns)
        .large_messages(settings(&s3))
        .handler({
            let contents = contents.clone();
            move |order: Order, meta: MessageMeta| {
                let content = meta.content().unwrap_or_default().to_owned();
                contents.add((order.id, content));
                async {}
            }
        });
    let notification = json!({
        "Type": "Notification",
        "MessageId": "n-1",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:orders",
        "Message": pointer(BUCKET, "key-1"),
        "Timestamp": "2026-01-01T00:00:00.000Z",
    });
    let record = Record::text(notification.to_string());
    let answer = Bench::new(consumer).run(Event::new([record])).await;
    answer.assert_processed("m-1");
    let seen = ("o-1".to_owned(), r#"{"id":"o-1"}"#.to_owned());
    assert_eq!(contents.take(), [seen]);
}

#[tokio::test(start_paused = true)]
async fn the_key_and_the_payload_of_a_duplicate_are_those_of_the_body() {
    let s3 = S3::default();
    s3.put("large-messages/key-1", r#"{"id":"o-1"}"#);
    s3.put("large-messages/key-2", r#"{"id":"o-1"}"#);
    let handled = Notes::default();
    let bench = Bench::new(noting(settings(&s3), &handled));
    let records = ["key-1", "key-2", "key-1"].map(|key| Record::text(pointer(BUCKET, key)));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_processed("m-1").assert_duplicate("m-2");
    let small = Event::new([Record::text(r#"{"id":"o-1"}"#)]);
    bench.run(small).await.assert_duplicate("m-1");
    assert_eq!(handled.take(), ["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn records_whose_body_does_not_come_by_the_deadline_return_alone() {
    let s3 = S3::turns([Turn::Hang]);
    s3.put("large-messages/key-1", r#"{"id":"o-1"}"#);
    let handled = Notes::default();
    let bench = Bench::new(noting(settings(&s3), &handled));
    let records = [0, 1].map(|_| Record::text(pointer(BUCKET, "key-1")));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_retried(["m-1"]).assert_processed("m-2");
    assert_eq!(handled.take(), ["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_fetches_no_more_bodies_at_once_than_it_has_handlers() {
    let s3 = S3::always(Turn::Hang);
    let consumer = noting(settings(&s3), &Notes::default()).concurrency(3);
    let records = vec![Record::text(pointer(BUCKET, "key-1")); 100];
    let answer = Bench::new(consumer).run(Event::new(records)).await;
    assert_eq!(answer.retried().len(), 100);
    assert_eq!(s3.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_keep_the_function_from_starting() {
    let s3 = S3::default();
    for (settings, why) in [
        (settings(&s3).max_size(0), "`max_size` is 0"),
        (settings(&s3).or_bucket("a b"), "names the bucket \"a b\""),
        (LargeMessages::in_bucket(""), "names the bucket \"\""),
        (
            LargeMessages::from_env().client(s3.client()),
            "SQS_ONCE_LARGE_MESSAGES_BUCKET is not set",
        ),
        (
            LargeMessages::from_env().or_bucket(BUCKET),
            "SQS_ONCE_LARGE_MESSAGES_BUCKET is not set",
        ),
    ] {
        let consumer = noting(settings, &Notes::default()).store(sqs_once::MemoryStore::new());
        let error = consumer.init().await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

fn message(body: &str) -> SendMessageFluentBuilder {
    let message = Sqs::default().client().send_message();
    message.queue_url(DLQ).message_body(body)
}

fn attribute(kind: &str, value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type(kind);
    attribute.string_value(value).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_producer_puts_a_large_body_into_s3_and_the_consumer_gets_it() {
    let s3 = S3::default();
    let body = json!({ "id": "o-1", "items": "x".repeat(300_000) }).to_string();
    let outgoing = Outgoing::new("o-1").unwrap();
    let bodies = Offload::new(s3.client(), BUCKET);
    let sent = outgoing
        .offload_onto(message(&body), &bodies)
        .await
        .unwrap();

    let text = sent.get_message_body().clone().unwrap();
    let (class, place): (String, Value) = serde_json::from_str(&text).unwrap();
    assert_eq!(class, CLASS);
    assert_eq!(place["s3BucketName"], BUCKET);
    let key = place["s3Key"].as_str().unwrap();
    assert_eq!(s3.paths(), [format!("{BUCKET}/{key}")]);
    let attributes = sent.get_message_attributes().clone().unwrap();
    let size = attribute("Number", &body.len().to_string());
    assert_eq!(attributes["ExtendedPayloadSize"], size);
    assert_eq!(attributes["business-key"], attribute("String", "s:o-1"));

    let seen: Notes<usize> = Notes::default();
    let consumer = sqs_once::consumer::<Value>()
        .key(ProducerKey)
        .large_messages(settings(&s3))
        .handler({
            let seen = seen.clone();
            move |order: Value| {
                seen.add(order["items"].as_str().unwrap().len());
                async {}
            }
        });
    let record = Record::text(text).attribute("business-key", "s:o-1");
    let answer = Bench::new(consumer).run(Event::new([record])).await;
    answer.assert_processed("m-1");
    assert_eq!(seen.take(), [300_000]);
}

#[tokio::test(start_paused = true)]
async fn only_a_message_above_the_threshold_goes_to_s3() {
    let s3 = S3::default();
    let outgoing = Outgoing::new("o-1").unwrap();
    // `business-key`, `String` and `s:o-1` have 23 bytes, `tenant`, `String` and `acme` 16.
    let own = |body| message(body).message_attributes("tenant", attribute("String", "acme"));
    let bodies = Offload::new(s3.client(), BUCKET).threshold(50);
    let small = outgoing.offload_onto(own("elf bytes:)"), &bodies);
    let small = small.await.unwrap();
    assert_eq!(small.get_message_body().as_deref(), Some("elf bytes:)"));
    assert_eq!(small.get_message_attributes().as_ref().unwrap().len(), 2);
    assert_eq!(s3.requests(), [""; 0]);
    let large = outgoing.offload_onto(own("zwölf Bytes"), &bodies);
    let large = large.await.unwrap();
    assert_eq!(large.get_message_attributes().as_ref().unwrap().len(), 3);
    assert_eq!(s3.requests().len(), 1);

    let whole = Offload::new(s3.client(), BUCKET);
    let fits = "x".repeat(256 * 1024 - 23);
    let message = outgoing.offload_onto(message(&fits), &whole).await.unwrap();
    assert_eq!(message.get_message_body().as_deref(), Some(&*fits));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_sent_puts_nothing_into_s3() {
    let s3 = S3::default();
    let bodies = Offload::new(s3.client(), BUCKET).threshold(0);
    let outgoing = Outgoing::new("o-1").unwrap();
    let taken = message("{}").message_attributes("ExtendedPayloadSize", attribute("Number", "1"));
    let error = outgoing.offload_onto(taken, &bodies).await.unwrap_err();
    assert!(
        error.to_string().contains("`ExtendedPayloadSize`"),
        "{error}"
    );
    let full = (0..9).fold(message("{}"), |message, at| {
        message.message_attributes(format!("own-{at}"), attribute("String", "x"))
    });
    let refused = outgoing.offload_onto(full, &bodies).await;
    assert!(matches!(refused, Err(OutgoingError::TooMany { count: 11 })));
    assert_eq!(s3.requests(), [""; 0]);

    let denied = S3::always(Turn::Refuse(403, "AccessDenied"));
    let bodies = Offload::new(denied.client(), BUCKET).threshold(0);
    let refused = outgoing.offload_onto(message("{}"), &bodies);
    assert!(matches!(refused.await, Err(OutgoingError::NotStored(_))));
    let elsewhere = S3::always(Turn::Parts(vec![]));
    let bodies = Offload::new(elsewhere.client(), BUCKET).threshold(0);
    let unconfirmed = outgoing.offload_onto(message("{}"), &bodies);
    assert!(matches!(
        unconfirmed.await,
        Err(OutgoingError::NotStored(_))
    ));
}
