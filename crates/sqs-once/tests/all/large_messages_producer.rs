//! Producers that put large bodies into S3, and consumers that require their MAC.

use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::MessageAttributeValue;
use serde_json::{Value, json};
use sqs_once::body::Sns;
use sqs_once::key::{KeySecret, MessageKey};
use sqs_once::producer::{Offload, Outgoing, OutgoingError};
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Consumer, Handler};

use crate::large_messages::{BUCKET, CLASS, ORDER, assert_ended, noting, settings};
use crate::router;
use crate::support::envelope_bench::attributed;
use crate::support::s3::{S3, Turn};
use crate::support::sqs::Sqs;
use crate::support::{DLQ, Notes, assert_contains};

fn message(body: &str) -> SendMessageFluentBuilder {
    let message = Sqs::default().client().send_message();
    message.queue_url(DLQ).message_body(body)
}

fn attribute(kind: &str, value: &str) -> MessageAttributeValue {
    let attribute = MessageAttributeValue::builder().data_type(kind);
    attribute.string_value(value).build().unwrap()
}

/// Sends every body of at least this size to S3.
fn above(threshold: usize, s3: &S3) -> Offload {
    Offload::new(s3.client(), BUCKET, "orders/").threshold(threshold)
}

/// A message with the key `o-1`, its body in S3 if need be.
async fn sent(
    message: SendMessageFluentBuilder,
    bodies: &Offload,
) -> Result<SendMessageFluentBuilder, OutgoingError> {
    let outgoing = Outgoing::new("o-1").unwrap();
    outgoing.offload_onto(message, bodies).await
}

fn body_of(message: &SendMessageFluentBuilder) -> &str {
    message.get_message_body().as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_producer_puts_a_large_body_into_s3_and_the_consumer_gets_it() {
    let s3 = S3::default();
    let body = json!({ "id": "o-1", "items": "x".repeat(300_000) }).to_string();
    let bodies = Offload::new(s3.client(), BUCKET, "orders/");
    let sent = sent(message(&body), &bodies).await.unwrap();

    let (class, place): (String, Value) = serde_json::from_str(body_of(&sent)).unwrap();
    assert_eq!(class, CLASS);
    assert_eq!(place["s3BucketName"], BUCKET);
    let key = place["s3Key"].as_str().unwrap();
    assert_eq!(s3.paths(), [format!("{BUCKET}/{key}")]);
    assert!(key.starts_with("orders/"), "{key}");
    let attributes = sent.get_message_attributes().as_ref().unwrap();
    let size = attribute("Number", &body.len().to_string());
    assert_eq!(attributes["ExtendedPayloadSize"], size);
    assert_eq!(attributes["business-key"], attribute("String", "s:o-1"));

    let (seen, notes) = Notes::pair();
    let keyed = Handler::json::<Value>().key(MessageKey::producer());
    let handler = keyed.call(notes.of(|order: Value| order["items"].as_str().unwrap().len()));
    let consumer = Consumer::new(handler).large_messages(settings(&s3));
    let record = Record::text(body_of(&sent)).attribute("business-key", "s:o-1");
    let answer = Bench::new(consumer).run(Event::new([record])).await;
    answer.assert_processed("m-1");
    assert_eq!(seen.take(), [300_000]);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_can_require_a_mac_that_only_senders_with_its_secret_can_write() {
    let s3 = S3::default();
    let [old, new, other] = [1, 2, 3].map(|byte| KeySecret::new([byte; 32]).unwrap());
    let send = async |bodies: Offload| {
        let sent = sent(message(ORDER), &bodies).await.unwrap();
        let attributes = sent.get_message_attributes().as_ref().unwrap();
        let mac = attributes
            .get("pointer-mac")
            .and_then(|mac| mac.string_value());
        (body_of(&sent).to_owned(), mac.map(str::to_owned))
    };
    let (body, mac) = send(above(0, &s3).mac(old.clone())).await;
    let (of_new, new_mac) = send(above(0, &s3).mac(new.clone())).await;
    let (_, of_other) = send(above(0, &s3).mac(other)).await;
    let (unsigned, no_mac) = send(above(0, &s3)).await;
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
        let why = (!is_accepted).then_some("see `require_mac`");
        assert_ended(&answer, why);
        let requests = usize::from(is_accepted);
        assert_eq!(s3.requests().len(), requests, "{body} {key} {mac:?}");
    }

    // Without raw delivery, SNS puts the attributes into its envelope.
    let attributes = [("business-key", "s:o-1"), ("pointer-mac", &*mac.unwrap())];
    let record = Record::json(&attributed(&body, &attributes));
    let handler = router::noting("orders", &Notes::default()).envelope(Sns);
    let consumer = Consumer::new(handler).large_messages(requiring);
    let answer = Bench::new(consumer).run(Event::new([record])).await;
    answer.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn only_a_message_above_the_threshold_goes_to_s3() {
    let s3 = S3::default();
    // `business-key`, `String` and `s:o-1` have 23 bytes, `tenant`, `String` and `acme` 16.
    let own = |body| message(body).message_attributes("tenant", attribute("String", "acme"));
    for (body, attributes) in [("elf bytes:)", 2), ("zwölf Bytes", 3)] {
        let message = sent(own(body), &above(50, &s3)).await.unwrap();
        let count = message.get_message_attributes().as_ref().unwrap().len();
        assert_eq!(count, attributes);
        assert_eq!(body_of(&message) == body, attributes == 2);
        assert_eq!(s3.requests().len(), attributes - 2);
    }
    let whole = Offload::new(s3.client(), BUCKET, "orders/");
    let fits = "x".repeat(256 * 1024 - 23);
    assert_eq!(body_of(&sent(message(&fits), &whole).await.unwrap()), fits);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_sent_puts_nothing_into_s3() {
    let s3 = S3::default();
    let taken = message("{}").message_attributes("ExtendedPayloadSize", attribute("Number", "1"));
    let error = sent(taken, &above(0, &s3)).await.unwrap_err();
    assert_contains!(error.to_string(), "`ExtendedPayloadSize`");
    let full = (0..9).fold(message("{}"), |message, at| {
        message.message_attributes(format!("own-{at}"), attribute("String", "x"))
    });
    let refused = sent(full, &above(0, &s3)).await;
    assert!(matches!(refused, Err(OutgoingError::TooMany { count: 11 })));
    assert_eq!(s3.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_and_an_answer_without_an_etag_confirm_no_body() {
    for turn in [Turn::Refuse(403, "AccessDenied"), Turn::Parts(vec![])] {
        let unconfirmed = sent(message("{}"), &above(0, &S3::always(turn))).await;
        let error = unconfirmed.unwrap_err();
        assert!(matches!(error, OutgoingError::NotStored(_)), "{error}");
    }
}
