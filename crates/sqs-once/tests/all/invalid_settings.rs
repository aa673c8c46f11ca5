//! Invalid values that the code sets: setters accept them, `init` names the setting, and nothing panics.

use std::time::Duration;

use crate::support::{Bench, DLQ, Order, SECOND};
use sqs_once::key::{JmesPath, JsonPointer, KeyCodec, KeyExtractor, KeySecret, Namespace};
use sqs_once::policy::{Backoff, Cache, Mode, PayloadMismatch};
use sqs_once::{Consumer, HandlerError, Idempotency, MemoryStore, Writes, consumer};

fn with_key(key: impl KeyExtractor<Order>) -> Consumer {
    let consumer = consumer::<Order>().key(key).handler(async |_: Order| {});
    Bench::new().consumer(consumer)
}

fn plain() -> Consumer {
    with_key(|order: &Order| order.id.clone())
}

/// A consumer whose handler's effect commits with the record of its key.
fn writing(mode: Mode) -> Consumer {
    let writing = async |_: Order| Ok::<_, HandlerError>(Writes::new());
    Bench::new().handling(writing).mode(mode)
}

/// A consumer with the keys of Powertools for Java.
fn reading(prefix: &str) -> Consumer {
    plain().key_codec(KeyCodec::powertools_java(prefix))
}

fn other() -> Namespace {
    Namespace::new("other").unwrap()
}

fn secret() -> KeySecret {
    KeySecret::new([7; 32]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn init_names_each_setting_that_the_code_sets_wrongly() {
    let long = "p".repeat(992);
    let rising = Backoff::exponential(Duration::ZERO, SECOND);
    let falling = Backoff::exponential(2 * SECOND, SECOND);
    let function = JmesPath::new("powertools_json(body).id");
    let tilde = "the JSON pointer of the key is \"/a~\": expected `~0` for a `~`";
    let commits = "`also_read` is set, but the handler's effect commits with the record";
    for (consumer, says) in [
        (
            plain().namespace("pay#ments"),
            "`namespace` is \"pay#ments\": expected 1 to 255 bytes",
        ),
        (plain().namespace(" "), "`namespace` is \" \": expected 1"),
        (plain().service(" "), "`service` is blank"),
        (plain().concurrency(0), "`concurrency` is 0: expected 1"),
        (plain().retention(SECOND / 2), "`retention` is 500ms"),
        (
            plain().deadline_margin(Duration::ZERO),
            "`deadline_margin` is 0: expected more than zero",
        ),
        (
            plain().record_timeout(Duration::ZERO),
            "`record_timeout` is 0, so that every handler",
        ),
        (plain().cache(Cache::new(0)), "`cache` has no room"),
        (
            reading("fn").payload_mismatch(PayloadMismatch::Reject),
            "`payload_mismatch` is `Reject`, but",
        ),
        (reading(" "), "the key codec has a prefix of 1 bytes"),
        (
            plain().also_read(KeyCodec::powertools_java(&long)),
            "the key codec has a prefix of 992 bytes",
        ),
        (
            plain().also_read(Namespace::new("test").unwrap()),
            "`also_read` is where its keys are already",
        ),
        (writing(Mode::Transactional).also_read(other()), commits),
        (writing(Mode::ClaimFirst).also_read(other()), commits),
        (
            plain().key_secret(secret()).readable_keys(true),
            "`key_secret` is set, but its keys are readable",
        ),
        (
            reading("fn").key_secret(secret()),
            "`key_secret` is set, but its key codec has a hash of its own",
        ),
        (
            writing(Mode::Transactional).key_secret(secret()),
            "SQS_ONCE_ALSO_READ is not set, but a secret hashes the keys",
        ),
        (
            plain().dead_letter_queue("orders-dlq"),
            "`dead_letter_queue` is \"orders-dlq\": expected the URL of an SQS queue",
        ),
        (
            plain().dead_letter_queue(DLQ).queue_url(DLQ),
            "`dead_letter_queue` is the consumer's own queue",
        ),
        (plain().queue_url("orders"), "`queue_url` is \"orders\""),
        (plain().backoff(rising), "`backoff` grows from 0ns to 1s"),
        (plain().backoff(falling), "`backoff` grows from 2s to 1s"),
        (
            with_key(JsonPointer::new("id")),
            "the JSON pointer of the key is \"id\": expected a `/` at its beginning",
        ),
        (with_key(JsonPointer::new("/a~")), tilde),
        (
            with_key(JsonPointer::new("/a~2b")),
            "the JSON pointer of the key is \"/a~2b\": expected `~0` for a `~`",
        ),
        (
            with_key(JmesPath::new("order.")),
            "the JMESPath expression of the key is \"order.\" (Parse error",
        ),
        (
            with_key((JsonPointer::new("/id"), function)),
            "Call to undefined function powertools_json",
        ),
    ] {
        let error = consumer.init().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_refuses_what_a_consumer_refuses() {
    let sound = Idempotency::new()
        .namespace("receipts")
        .store(MemoryStore::new());
    sound.init().await.unwrap();
    for (idempotency, setting) in [
        (sound.clone().namespace("a#b"), "namespace"),
        (sound.clone().retention(Duration::ZERO), "retention"),
        (
            sound.clone().deadline_margin(Duration::ZERO),
            "deadline_margin",
        ),
        (sound.clone().cache(Cache::new(0)), "cache"),
    ] {
        let error = idempotency.init().await.unwrap_err();
        assert_eq!(error.variable(), format!("the setting `{setting}`"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_value_of_a_setting_counts() {
    let consumer = plain()
        .concurrency(0)
        .concurrency(1)
        .namespace("#")
        .namespace("payments");
    consumer.init().await.unwrap();
    let fresh = writing(Mode::Transactional)
        .key_secret(secret())
        .also_read_nothing();
    fresh.init().await.unwrap();
}
