//! Invalid values that the code sets: setters accept them, `init` names the setting, and nothing panics.

use std::time::Duration;

use crate::support::{Bench, Order};
use sqs_once::key::{JmesPath, JsonPointer, KeyCodec, KeyExtractor};
use sqs_once::policy::{Backoff, Cache};
use sqs_once::{Consumer, Idempotency, MemoryStore, consumer};

const SECOND: Duration = Duration::from_secs(1);

fn with_key(key: impl KeyExtractor<Order>) -> Consumer {
    let consumer = consumer::<Order>().key(key).handler(async |_: Order| {});
    Bench::new().consumer(consumer)
}

fn plain() -> Consumer {
    with_key(|order: &Order| order.id.clone())
}

async fn refusal(consumer: Consumer) -> (String, String) {
    let error = consumer.init().await.unwrap_err();
    (error.variable().to_owned(), error.to_string())
}

#[tokio::test(start_paused = true)]
async fn init_names_each_setting_that_the_code_sets_wrongly() {
    let long = "p".repeat(992);
    for (consumer, setting, says) in [
        (plain().namespace("pay#ments"), "namespace", "\"pay#ments\""),
        (plain().namespace(" "), "namespace", "1 to 255 bytes"),
        (plain().service(" "), "service", "is blank"),
        (plain().concurrency(0), "concurrency", "1 or more"),
        (plain().retention(SECOND / 2), "retention", "is 500ms"),
        (
            plain().deadline_margin(Duration::ZERO),
            "deadline_margin",
            "more than zero",
        ),
        (
            plain().record_timeout(Duration::ZERO),
            "record_timeout",
            "more than zero",
        ),
        (plain().cache(Cache::new(0)), "cache", "1 key or more"),
        (
            plain().key_codec(KeyCodec::powertools_java(" ")),
            "the key codec",
            "1 bytes",
        ),
        (
            plain().also_read(KeyCodec::powertools_java(&long)),
            "the key codec",
            "992 bytes",
        ),
        (
            plain().dead_letter_queue("orders-dlq"),
            "dead_letter_queue",
            "the URL of an SQS queue",
        ),
        (plain().queue_url("orders"), "queue_url", "\"orders\""),
        (
            plain().backoff(Backoff::exponential(Duration::ZERO, SECOND)),
            "backoff",
            "above zero",
        ),
        (
            plain().backoff(Backoff::exponential(2 * SECOND, SECOND)),
            "backoff",
            "from 2s to 1s",
        ),
    ] {
        let (variable, error) = refusal(consumer).await;
        assert!(variable.contains(setting), "{variable}");
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn init_names_a_key_extractor_that_can_find_no_key() {
    let pointer = "the JSON pointer of the key";
    let expression = "the JMESPath expression of the key";
    for (consumer, what, says) in [
        (
            with_key(JsonPointer::new("id")),
            pointer,
            "expected a `/` at its beginning",
        ),
        (
            with_key(JsonPointer::new("/a~")),
            pointer,
            "\"/a~\": expected `~0` for a `~`",
        ),
        (
            with_key(JsonPointer::new("/a~2b")),
            pointer,
            "`~1` for a `/`",
        ),
        (with_key(JmesPath::new("order.")), expression, "Parse error"),
        (
            with_key((
                JsonPointer::new("/id"),
                JmesPath::new("powertools_json(body).id"),
            )),
            expression,
            "Call to undefined function powertools_json",
        ),
    ] {
        let (variable, error) = refusal(consumer).await;
        assert_eq!(variable, what);
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
}
