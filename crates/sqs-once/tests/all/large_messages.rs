//! Messages whose body is in S3.

use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::MessageAttributeValue;
use serde_json::{Value, json};
use sqs_once::body::Sns;
use sqs_once::extract::MessageMeta;
use sqs_once::key::{KeySecret, ProducerKey};
use sqs_once::large_messages::LargeMessages;
use sqs_once::producer::{Offload, Outgoing, OutgoingError};
use sqs_once::testing::{Answer, Bench, Event, Record};
use sqs_once::{Batch, Consumer};

use crate::support::process::passes;
use crate::support::s3::{S3, Turn};
use crate::support::sqs::Sqs;
use crate::support::{AtOnce, DLQ, Notes, Order, SECOND, orders};
use tokio::time::sleep;

const BUCKET: &str = "large-messages";
/// The queue of records in tests.
const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";
const REFUNDS: &str = "arn:aws:sqs:eu-central-1:123456789012:refunds";
const VARIABLE: &str = "SQS_ONCE_LARGE_MESSAGES";
const CLASS: &str = "software.amazon.payloadoffloading.PayloadS3Pointer";
const LEGACY_CLASS: &str = "com.amazon.sqs.javamessaging.MessageS3Pointer";

fn settings(s3: &S3) -> LargeMessages {
    LargeMessages::for_queue(QUEUE, "large-messages/*").client(s3.client())
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
    let not_ours = "another object than its queue's, which are large-messages/*";
    for (turn, body, why) in [
        (
            Turn::Do,
            pointer(BUCKET, "canary-1"),
            "missing in the bucket \"large-messages\"",
        ),
        (
            Turn::Refuse(403, "InvalidObjectState"),
            pointer(BUCKET, "canary-1"),
            "archived: restore it",
        ),
        (
            Turn::Parts(vec![Some(b"\xff")]),
            pointer(BUCKET, "canary-1"),
            "not UTF-8",
        ),
        (Turn::Do, pointer("secrets", "canary-1"), not_ours),
        (Turn::Do, pointer(&long, "canary-1"), not_ours),
        (Turn::Do, json!([CLASS]).to_string(), malformed),
        (Turn::Do, json!([CLASS, "canary-1"]).to_string(), malformed),
        (
            Turn::Do,
            json!([CLASS, { "s3Key": "canary-1" }]).to_string(),
            malformed,
        ),
        (Turn::Do, format!(r#"["{CLASS}", "#), malformed),
    ] {
        let s3 = S3::always(turn);
        let (answer, handled) = handled(settings(&s3), &body).await;
        answer.assert_terminal("m-1").assert_reason("m-1", why);
        let reason = answer.reason("m-1").unwrap();
        assert!(!reason.contains("canary") && reason.len() < 300, "{reason}");
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
        let (answer, handled) = handled(settings(&s3), &pointer(BUCKET, "canary-1")).await;
        answer.assert_failed("m-1").assert_reason("m-1", why);
        answer.assert_retried(["m-1"]);
        let reason = answer.reason("m-1").unwrap();
        assert!(!reason.contains("canary"), "{reason}");
        assert_eq!(handled, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_than_max_size_is_read() {
    let order = r#"{"id":"o-1"}"#;
    let s3 = S3::default();
    s3.put("large-messages/canary-1", order);
    let with = |max_size| settings(&s3).max_size(max_size);
    let body = pointer(BUCKET, "canary-1");
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
async fn messages_can_name_only_the_objects_of_their_queue() {
    let settings = |s3: &S3| {
        let settings = LargeMessages::for_queue(QUEUE, "large-messages/orders/*");
        settings.client(s3.client())
    };
    let long = format!("orders/{}", "x".repeat(1018));
    for (bucket, key) in [
        (BUCKET, "refunds/1"),
        (BUCKET, "orders"),
        (BUCKET, "orders/"),
        (BUCKET, "orders-of-others/1"),
        (BUCKET, "Orders/1"),
        (BUCKET, "/orders/1"),
        (BUCKET, "refunds/orders/1"),
        (BUCKET, "orders%2F1"),
        (BUCKET, "orders\\1"),
        (BUCKET, "\0orders/1"),
        (BUCKET, "orders/../refunds/1"),
        (BUCKET, "orders/./1"),
        (BUCKET, "orders/.."),
        (BUCKET, &long),
        (BUCKET, ""),
        ("large-messages/orders", "1"),
        ("large-messages-2", "orders/1"),
        ("", "large-messages/orders/1"),
    ] {
        let s3 = S3::always(Turn::Parts(vec![Some(br#"{"id":"o-1"}"#)]));
        let handled = Notes::default();
        let bench = Bench::new(noting(settings(&s3), &handled));
        let refused = Record::text(pointer(bucket, key));
        let answer = bench.run(Event::new([refused])).await;
        answer.assert_terminal("m-1");
        answer.assert_reason(
            "m-1",
            "another object than its queue's, which are large-messages/orders/*",
        );
        assert_eq!(s3.requests(), [""; 0], "{key:?}");
        let same_key = Event::new([Record::text(r#"{"id":"o-1"}"#)]);
        bench.run(same_key).await.assert_processed("m-1");
        assert_eq!(handled.take(), ["o-1"]);
    }
    for key in [
        "orders/1",
        "orders//1",
        "orders/..a/b.",
        "orders/%2E%2E/é ?#+&*",
        &long[..1024],
    ] {
        let s3 = S3::always(Turn::Parts(vec![Some(br#"{"id":"o-1"}"#)]));
        let (answer, _) = handled(settings(&s3), &pointer(BUCKET, key)).await;
        answer.assert_processed("m-1");
    }
}

#[tokio::test(start_paused = true)]
async fn each_queue_of_a_function_has_its_own_objects() {
    let s3 = S3::default();
    for path in [
        "large-messages/orders/1",
        "large-messages/refunds/1",
        "theirs/1",
    ] {
        s3.put(path, r#"{"id":"o-1"}"#);
    }
    let settings = LargeMessages::for_queue(QUEUE, "large-messages/orders/*")
        .and_queue(REFUNDS, "large-messages/refunds/*")
        .and_queue(REFUNDS, "theirs/*")
        .client(s3.client());
    let namesake = "arn:aws:sqs:eu-central-1:210987654321:orders";
    let orders_only = "another object than its queue's, which are large-messages/orders/*";
    let refunds_only = "which are large-messages/refunds/*, theirs/*";
    for (queue, bucket, key, why) in [
        (QUEUE, BUCKET, "orders/1", None),
        (QUEUE, BUCKET, "refunds/1", Some(orders_only)),
        (QUEUE, "theirs", "1", Some(orders_only)),
        (REFUNDS, BUCKET, "refunds/1", None),
        (REFUNDS, "theirs", "1", None),
        (REFUNDS, BUCKET, "orders/1", Some(refunds_only)),
        (
            namesake,
            BUCKET,
            "orders/1",
            Some("its queue \"arn:aws:sqs:eu-central-1:210987654321:orders\" has no"),
        ),
        (
            "",
            BUCKET,
            "orders/1",
            Some("its queue \"\" has no objects there"),
        ),
    ] {
        let bench = Bench::new(noting(settings.clone(), &Notes::default()));
        let event = Event::new([Record::text(pointer(bucket, key))]);
        let event = Event::from_json(event.as_json().replace(QUEUE, queue));
        let answer = bench.run(event).await;
        match why {
            None => answer.assert_processed("m-1"),
            Some(why) => answer.assert_terminal("m-1").assert_reason("m-1", why),
        };
        assert_eq!(
            s3.requests().len(),
            usize::from(why.is_none()),
            "{queue} {key}"
        );
    }
}

/// A variable applies to all tests of a process, so the test runs other processes.
#[test]
fn the_variable_names_the_objects_of_each_queue() {
    let this = "in_a_process_with_the_variable_the_consumer_has_its_queues";
    let both = format!("{QUEUE}=large-messages/orders/*,\n {REFUNDS}=large-messages/refunds/*");
    let nested = format!("{QUEUE}=large-messages/*,{REFUNDS}=large-messages/refunds/*");
    for text in [
        &both,
        &nested,
        "large-messages",
        "orders=large-messages/orders/*",
    ] {
        passes(module_path!(), this, &[(VARIABLE, text)]);
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_process_with_the_variable_the_consumer_has_its_queues() {
    let Ok(variable) = std::env::var(VARIABLE) else {
        return;
    };
    let s3 = S3::default();
    s3.put("large-messages/refunds/1", r#"{"id":"o-1"}"#);
    let consumer = noting(
        LargeMessages::from_env().client(s3.client()),
        &Notes::default(),
    );
    if !variable.contains("large-messages/orders/*") || !variable.contains(REFUNDS) {
        let refused = consumer.store(sqs_once::MemoryStore::new()).init().await;
        let error = refused.unwrap_err().to_string();
        let why = match variable.contains(REFUNDS) {
            true => format!("{VARIABLE} has the objects \"large-messages/*\" for the queue"),
            false => format!("{VARIABLE} has the entry {variable:?}: expected the ARN of a queue"),
        };
        assert!(error.starts_with(&why), "{error}");
        return;
    }
    let bench = Bench::new(consumer);
    let event = Event::new([Record::text(pointer(BUCKET, "refunds/1"))]);
    bench.run(&event).await.assert_terminal("m-1");
    let of_refunds = Event::from_json(event.as_json().replace(QUEUE, REFUNDS));
    bench.run(of_refunds).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn the_dead_letter_queue_gets_the_pointer() {
    let (s3, sqs) = (S3::default(), Sqs::default());
    s3.put("large-messages/canary-1", r#"{"id":"hopeless-1"}"#);
    let consumer = noting(settings(&s3), &Notes::default())
        .dead_letter_queue(DLQ)
        .sqs_client(sqs.client());
    let body = pointer(BUCKET, "canary-1");
    let answer = Bench::new(consumer)
        .run(Event::new([Record::text(&body)]))
        .await;
    answer.assert_terminal("m-1").assert_all_acknowledged();
    assert_eq!(sqs.asked("SendMessage")[0]["MessageBody"], *body);
    assert_eq!(s3.paths(), ["large-messages/canary-1"], "redrive needs it");
}

#[tokio::test(start_paused = true)]
async fn the_body_behind_an_envelope_is_fetched_and_is_what_the_handler_sees_of_the_message() {
    let s3 = S3::default();
    s3.put("large-messages/canary-1", r#"{"id":"o-1"}"#);
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
        "Message": pointer(BUCKET, "canary-1"),
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
    s3.put("large-messages/canary-1", r#"{"id":"o-1"}"#);
    s3.put("large-messages/key-2", r#"{"id":"o-1"}"#);
    let handled = Notes::default();
    let bench = Bench::new(noting(settings(&s3), &handled));
    let records = ["canary-1", "key-2", "canary-1"].map(|key| Record::text(pointer(BUCKET, key)));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_processed("m-1").assert_duplicate("m-2");
    let small = Event::new([Record::text(r#"{"id":"o-1"}"#)]);
    bench.run(small).await.assert_duplicate("m-1");
    assert_eq!(handled.take(), ["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn records_whose_body_does_not_come_by_the_deadline_return_alone() {
    let s3 = S3::turns([Turn::Hang]);
    s3.put("large-messages/canary-1", r#"{"id":"o-1"}"#);
    let handled = Notes::default();
    let bench = Bench::new(noting(settings(&s3), &handled));
    let records = [0, 1].map(|_| Record::text(pointer(BUCKET, "canary-1")));
    let answer = bench.run(Event::new(records)).await;
    answer.assert_retried(["m-1"]).assert_processed("m-2");
    answer.assert_reason("m-1", "the deadline came before its payload was there");
    assert_eq!(handled.take(), ["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_fetches_no_more_bodies_at_once_than_it_has_handlers() {
    let s3 = S3::always(Turn::Hang);
    let consumer = noting(settings(&s3), &Notes::default()).concurrency(3);
    let records = vec![Record::text(pointer(BUCKET, "canary-1")); 100];
    let answer = Bench::new(consumer).run(Event::new(records)).await;
    assert_eq!(answer.retried().len(), 100);
    assert_eq!(s3.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_keep_the_function_from_starting() {
    let s3 = S3::default();
    for (settings, why) in [
        (settings(&s3).max_size(0), "`max_size` is 0"),
        (
            LargeMessages::from_env().client(s3.client()),
            "SQS_ONCE_LARGE_MESSAGES is not set",
        ),
        (
            LargeMessages::from_env().and_queue(QUEUE, "large-messages/*"),
            "SQS_ONCE_LARGE_MESSAGES is not set",
        ),
    ] {
        let consumer = noting(settings, &Notes::default()).store(sqs_once::MemoryStore::new());
        let error = consumer.init().await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    for (queue, objects) in [
        ("orders", "large-messages/*"),
        ("arn:aws:sqs:eu-central-1:123456789012:", "large-messages/*"),
        (
            "arn:aws:sns:eu-central-1:123456789012:orders",
            "large-messages/*",
        ),
        (QUEUE, ""),
        (QUEUE, "large-messages"),
        (QUEUE, "large-messages/orders/"),
        (QUEUE, "large-messages/orders*"),
        (QUEUE, "large-messages/*/orders/*"),
        (QUEUE, "large-messages/a/../*"),
        (QUEUE, "large messages/*"),
        (QUEUE, "/orders/*"),
        (QUEUE, "arn:aws:s3:::large-messages/*"),
    ] {
        let settings = LargeMessages::for_queue(queue, objects).client(s3.client());
        let consumer = noting(settings, &Notes::default()).store(sqs_once::MemoryStore::new());
        let error = consumer.init().await.unwrap_err().to_string();
        let why = format!("the setting `large_messages` has the objects {objects:?}");
        assert!(error.starts_with(&why), "{error}");
    }
    let point = "arn:aws:s3:eu-central-1:123456789012:accesspoint/orders";
    let settings = LargeMessages::for_queue(QUEUE, &format!("{point}/orders/*"));
    let consumer = noting(settings.client(s3.client()), &Notes::default());
    consumer
        .store(sqs_once::MemoryStore::new())
        .init()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_queue_whose_prefix_contains_anothers_keeps_the_function_from_starting() {
    let s3 = S3::default();
    let start = async |[orders, refunds]: [&str; 2]| {
        let settings = LargeMessages::for_queue(QUEUE, orders).and_queue(REFUNDS, refunds);
        let consumer = noting(settings.client(s3.client()), &Notes::default());
        consumer.store(sqs_once::MemoryStore::new()).init().await
    };
    for (objects, [outer, inner]) in [
        (["acme/*", "acme/refunds/*"], [QUEUE, REFUNDS]),
        (["acme/orders/*", "acme/*"], [REFUNDS, QUEUE]),
        (["acme/orders/*", "acme/orders/refunds/*"], [QUEUE, REFUNDS]),
    ] {
        let error = start(objects).await.unwrap_err().to_string();
        let [of_outer, of_inner] = match outer == QUEUE {
            true => objects,
            false => [objects[1], objects[0]],
        };
        let why = format!(
            "the setting `large_messages` has the objects {of_outer:?} for the queue {outer:?}, which contain {of_inner:?} \
             of the queue {inner:?}"
        );
        assert!(error.starts_with(&why), "{error}");
        assert!(
            error.contains("expected a prefix for each queue"),
            "{error}"
        );
    }
    for objects in [
        ["acme/orders/*", "acme/refunds/*"],
        ["acme/orders/*", "acme/orders-2/*"],
        ["acme/*", "acme/*"],
        ["acme/*", "acme-2/refunds/*"],
    ] {
        start(objects).await.unwrap();
    }
    let settings = LargeMessages::for_queue(QUEUE, "acme/*").and_queue(QUEUE, "acme/orders/*");
    let consumer = noting(settings.client(s3.client()), &Notes::default());
    let started = consumer.store(sqs_once::MemoryStore::new()).init().await;
    started.unwrap();
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
    let bodies = Offload::new(s3.client(), BUCKET, "orders/");
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
    assert!(key.starts_with("orders/"), "{key}");
    let attributes = sent.get_message_attributes().clone().unwrap();
    let size = attribute("Number", &body.len().to_string());
    assert_eq!(attributes["ExtendedPayloadSize"], size);
    assert_eq!(attributes["business-key"], attribute("String", "s:o-1"));

    let seen: Notes<usize> = Notes::default();
    let consumer = sqs_once::consumer::<Value>()
        .key(ProducerKey)
        .large_messages(
            LargeMessages::for_queue(QUEUE, "large-messages/orders/*").client(s3.client()),
        )
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
async fn a_consumer_can_require_a_mac_that_only_senders_with_its_secret_can_write() {
    let s3 = S3::default();
    let [old, new, other] = [1, 2, 3].map(|byte| KeySecret::new([byte; 32]).unwrap());
    let send = async |secret: Option<&KeySecret>| {
        let bodies = Offload::new(s3.client(), BUCKET, "orders/").threshold(0);
        let bodies = match secret {
            Some(secret) => bodies.mac(secret.clone()),
            None => bodies,
        };
        let outgoing = Outgoing::new("o-1").unwrap();
        let sent = outgoing.offload_onto(message(r#"{"id":"o-1"}"#), &bodies);
        let sent = sent.await.unwrap();
        let attributes = sent.get_message_attributes().clone().unwrap();
        let mac = attributes
            .get("pointer-mac")
            .and_then(|mac| mac.string_value());
        (
            sent.get_message_body().clone().unwrap(),
            mac.map(str::to_owned),
        )
    };
    let (body, mac) = send(Some(&old)).await;
    let (of_new, new_mac) = send(Some(&new)).await;
    let (_, of_other) = send(Some(&other)).await;
    let (unsigned, no_mac) = send(None).await;
    assert_eq!(no_mac, None);
    s3.requests();

    let requiring = settings(&s3).require_mac(old).require_mac(new);
    for (body, key, mac, is_accepted) in [
        (&body, "s:o-1", &mac, true),
        (&of_new, "s:o-1", &new_mac, true),
        (&body, "s:o-2", &mac, false),
        (&of_new, "s:o-1", &mac, false),
        (&body.replace("orders/", "orders/x"), "s:o-1", &mac, false),
        (&body, "s:o-1", &of_other, false),
        (&body, "s:o-1", &Some(String::new()), false),
        (&unsigned, "s:o-1", &None, false),
    ] {
        let record = Record::text(body).attribute("business-key", key);
        let record = match mac {
            Some(mac) => record.attribute("pointer-mac", mac),
            None => record,
        };
        let bench = Bench::new(noting(requiring.clone(), &Notes::default()));
        let answer = bench.run(Event::new([record])).await;
        match is_accepted {
            true => answer.assert_processed("m-1"),
            false => answer
                .assert_terminal("m-1")
                .assert_reason("m-1", "see `require_mac`"),
        };
        assert_eq!(
            s3.requests().len(),
            usize::from(is_accepted),
            "{body} {key} {mac:?}"
        );
    }

    // Without raw delivery, SNS puts the attributes into its envelope.
    let notification = json!({
        "Type": "Notification",
        "MessageId": "n-1",
        "TopicArn": "arn:aws:sns:eu-central-1:123456789012:orders",
        "Message": body,
        "Timestamp": "2026-01-01T00:00:00.000Z",
        "MessageAttributes": {
            "business-key": { "Type": "String", "Value": "s:o-1" },
            "pointer-mac": { "Type": "String", "Value": mac },
        },
    });
    let consumer = noting(requiring, &Notes::default()).envelope(Sns);
    let record = Record::text(notification.to_string());
    let answer = Bench::new(consumer).run(Event::new([record])).await;
    answer.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn only_a_message_above_the_threshold_goes_to_s3() {
    let s3 = S3::default();
    let outgoing = Outgoing::new("o-1").unwrap();
    // `business-key`, `String` and `s:o-1` have 23 bytes, `tenant`, `String` and `acme` 16.
    let own = |body| message(body).message_attributes("tenant", attribute("String", "acme"));
    let bodies = Offload::new(s3.client(), BUCKET, "orders/").threshold(50);
    let small = outgoing.offload_onto(own("elf bytes:)"), &bodies);
    let small = small.await.unwrap();
    assert_eq!(small.get_message_body().as_deref(), Some("elf bytes:)"));
    assert_eq!(small.get_message_attributes().as_ref().unwrap().len(), 2);
    assert_eq!(s3.requests(), [""; 0]);
    let large = outgoing.offload_onto(own("zwölf Bytes"), &bodies);
    let large = large.await.unwrap();
    assert_eq!(large.get_message_attributes().as_ref().unwrap().len(), 3);
    assert_eq!(s3.requests().len(), 1);

    let whole = Offload::new(s3.client(), BUCKET, "orders/");
    let fits = "x".repeat(256 * 1024 - 23);
    let message = outgoing.offload_onto(message(&fits), &whole).await.unwrap();
    assert_eq!(message.get_message_body().as_deref(), Some(&*fits));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_sent_puts_nothing_into_s3() {
    let s3 = S3::default();
    let bodies = Offload::new(s3.client(), BUCKET, "orders/").threshold(0);
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
    let bodies = Offload::new(denied.client(), BUCKET, "orders/").threshold(0);
    let refused = outgoing.offload_onto(message("{}"), &bodies);
    assert!(matches!(refused.await, Err(OutgoingError::NotStored(_))));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_an_etag_confirms_no_body() {
    let elsewhere = S3::always(Turn::Parts(vec![]));
    let bodies = Offload::new(elsewhere.client(), BUCKET, "orders/").threshold(0);
    let outgoing = Outgoing::new("o-1").unwrap();
    let unconfirmed = outgoing.offload_onto(message("{}"), &bodies).await;
    let error = unconfirmed.unwrap_err();
    assert!(matches!(error, OutgoingError::NotStored(_)), "{error}");
}

const MIB: usize = 1024 * 1024;

/// A body of this many bytes.
fn body(id: &str, bytes: usize) -> String {
    let frame = json!({ "id": id, "rest": "" }).to_string().len();
    json!({ "id": id, "rest": "x".repeat(bytes - frame) }).to_string()
}

/// An S3 with these bodies, and an event with a pointer to each.
fn stored(bodies: impl IntoIterator<Item = String>) -> (S3, Event) {
    let s3 = S3::default();
    let records = bodies.into_iter().enumerate().map(|(at, body)| {
        s3.put(&format!("large-messages/{at}"), body);
        Record::text(pointer(BUCKET, &at.to_string()))
    });
    let event = Event::new(records.collect::<Vec<_>>());
    (s3, event)
}

/// The process's largest memory so far, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().trim().parse::<usize>().unwrap() / 1024
}

/// Only in a process of its own.
#[tokio::test(start_paused = true)]
async fn in_a_process_that_measures_its_memory() {
    let Ok(distinct) = std::env::var("DISTINCT") else {
        return;
    };
    let distinct: usize = distinct.parse().unwrap();
    let (s3, _) = stored((0..distinct).map(|at| body(&format!("o-{at}"), MIB)));
    let orders = orders().namespace("orders");
    let orders = orders.large_messages(settings(&s3).max_size(MIB).max_memory(8 * MIB));
    let orders = orders.handler(async |_: Order| sleep(SECOND).await);
    let bench = Bench::new(orders.on_duplicate(async |_| Ok(()))).timeout(120 * SECOND);
    let records = (0..100).map(|at| Record::text(pointer(BUCKET, &(at % distinct).to_string())));
    let event = Event::new(records);
    let before = peak();
    bench.run(event).await.assert_all_acknowledged();
    let grown = peak() - before;
    // The stand-in's answers and the allocator take some more. 100 bodies would take 100 MiB.
    assert!(grown < 60, "{grown} MiB");
}

#[test]
fn the_bodies_of_a_batch_take_no_more_memory_than_allowed() {
    for distinct in ["1", "20"] {
        let this = "in_a_process_that_measures_its_memory";
        passes(module_path!(), this, &[("DISTINCT", distinct)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_memory_until_others_have_ended() {
    let bodies = (0..30).map(|at| format!(r#"{{"id":"o-{at}"}}"#));
    let (s3, event) = stored(bodies);
    let at_once = AtOnce::default();
    let counted = at_once.clone();
    let messages = settings(&s3).max_size(1000).max_memory(2000);
    let orders = orders().large_messages(messages).namespace("orders");
    let orders = orders.handler(move |_: Order| {
        let counted = counted.clone();
        async move {
            let _counted = counted.enter();
            sleep(SECOND).await;
        }
    });
    let bench = Bench::new(orders).timeout(120 * SECOND);
    bench.run(event).await.assert_all_acknowledged();
    assert_eq!(
        at_once.most(),
        10,
        "bodies that are here count as large as they are"
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_that_hooks_hold_count_until_the_hooks_have_ended() {
    let (s3, event) = stored((0..6).map(|at| body(&format!("bad-{at}"), 900)));
    let messages = settings(&s3).max_size(1000).max_memory(2000);
    let orders = orders().large_messages(messages).namespace("orders");
    let handled = AtOnce::default();
    let counted = handled.clone();
    let orders = orders.handler(async |order: Order| order.obey().await);
    let orders = orders.on_failure(move |end| {
        let counted = counted.clone();
        async move {
            let _counted = counted.enter();
            sleep(SECOND).await;
            drop(end);
            Ok(())
        }
    });
    let bench = Bench::new(orders).timeout(120 * SECOND);
    let answer = bench.run(event).await;
    assert_eq!((answer.retried().len(), handled.most()), (6, 2));
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_returns_the_records_for_whose_bodies_there_is_no_memory() {
    let (s3, event) = stored((0..30).map(|at| body(&format!("o-{at:02}"), 100)));
    let messages = settings(&s3).max_size(500).max_memory(2000);
    let orders = orders().large_messages(messages).namespace("orders");
    let bench =
        Bench::new(orders.batch_handler(async |orders: Batch<Order>| orders.all_succeeded()));
    let answer = bench.run(event).await;
    let retried = answer.retried().len();
    // A further body could have 500 bytes.
    assert_eq!(
        retried,
        30 - 1 - (2000 - 500) / 100,
        "{:?}",
        answer.retried()
    );
    for id in answer.retried() {
        answer.assert_reason(id, "leave no memory for its own body");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_larger_than_all_memory_is_terminal() {
    let s3 = S3::default();
    s3.put("large-messages/1", body("o-1", MIB + 1));
    let messages = settings(&s3).max_memory(MIB);
    let (answer, _) = handled(messages, &pointer(BUCKET, "1")).await;
    let why = "the consumer's `max_memory` is 1048576";
    answer.assert_terminal("m-1").assert_reason("m-1", why);
}
