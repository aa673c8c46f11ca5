//! Keys and fingerprints hashed with a secret, and the rotation of secrets.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sqs_once::key::{Fingerprint, KeyCodec, KeySecret, Namespace};
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::Store;
use sqs_once::telemetry::Outcome;
use sqs_once::testing::TestSettings;
use sqs_once::testing::{Bench, Event};
use sqs_once::{
    BusinessKey, Consumer, HandlerError, Idempotency, IdempotencyToken, MemoryStore, Writes,
};

type Tokens = Arc<Mutex<Vec<String>>>;

fn secret(byte: u8) -> KeySecret {
    KeySecret::new([byte; 32]).unwrap()
}

fn namespace(secret: Option<KeySecret>) -> Namespace {
    let namespace = Namespace::new("payments").unwrap();
    match secret {
        Some(secret) => namespace.key_secret(secret),
        None => namespace,
    }
}

fn consumer() -> Consumer {
    noting(&Tokens::default())
}

fn noting(tokens: &Tokens) -> Consumer {
    let tokens = Arc::clone(tokens);
    sqs_once::consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .namespace("payments")
        .payload_mismatch(PayloadMismatch::Reject)
        .handler(move |_: Value, token: IdempotencyToken| {
            tokens.lock().unwrap().push(token.to_string());
            async {}
        })
}

fn order(id: &str) -> Event {
    Event::new([&json!({ "id": id })])
}

async fn refusal(consumer: Consumer) -> String {
    let started = consumer.store(MemoryStore::new()).init().await;
    started.unwrap_err().to_string()
}

#[test]
fn an_id_is_the_hmac_of_the_key() {
    let key = BusinessKey::new("o-1001").unwrap();
    let id = namespace(Some(secret(7))).item_id(&key);
    // Python: hmac.new(bytes([7] * 32), b"s" + struct.pack(">Q", 6) + b"o-1001", "sha256")
    let hmac = "120f4d50cc51d1fef3059a91e3fff9b22b0ac9e59533b004773101af701e843d";
    assert_eq!(id.as_str(), format!("payments#{hmac}"));
    let others = [namespace(None), namespace(Some(secret(8)))];
    assert!(others.iter().all(|other| other.item_id(&key) != id));
}

#[test]
fn a_secret_is_in_no_debug_output_and_in_no_error() {
    let secret = KeySecret::new("correct horse battery").unwrap();
    let namespace = Namespace::new("payments")
        .unwrap()
        .key_secret(secret.clone());
    let shown = format!(
        "{secret:?} {namespace:?} {:?}",
        KeyCodec::from(namespace.clone())
    );
    let bytes = format!("{:?}", b"correct horse battery");
    assert!(
        !shown.contains("horse") && !shown.contains(&bytes),
        "{shown}"
    );
    let error = KeySecret::new("battery staple").unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("staple"), "{shown}");
    assert!(shown.contains("14 bytes"), "{shown}");
}

#[test]
fn a_secret_of_fewer_than_sixteen_bytes_is_refused() {
    for len in [0, 1, 15] {
        KeySecret::new(vec![7; len]).unwrap_err();
    }
    KeySecret::new([7; 16]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_table_holds_neither_the_hash_nor_the_fingerprint_that_anyone_can_compute() {
    let bench = Bench::new(consumer().key_secret(secret(7)));
    bench.run(order("o-1")).await.assert_processed("m-1");
    let item = bench.item("o-1").await.unwrap();
    let key = BusinessKey::new("o-1").unwrap();
    assert_eq!(item.id, namespace(Some(secret(7))).item_id(&key));
    let fingerprint = item.fingerprint.unwrap();
    let body = json!({ "id": "o-1" }).to_string();
    assert_ne!(fingerprint, Fingerprint::of_body(&body));
    let guessed = namespace(None).item_id(&key);
    let found = bench.store().read(&[guessed]).await.remove(0);
    assert_eq!(found.unwrap(), None);
    // The consumer compares the fingerprint of the existing item.
    bench.run(order("o-1")).await.assert_duplicate("m-1");
    let other = Event::new([&json!({ "id": "o-1", "cents": 1 })]);
    let answer = bench.run(other).await;
    assert_eq!(answer.outcome("m-1"), Outcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_given_a_secret_knows_what_it_did_without() {
    let tokens = Tokens::default();
    let before = Bench::new(noting(&tokens));
    let now = before.beside(noting(&tokens).key_secret(secret(7)));
    before.run(order("o-1")).await.assert_processed("m-1");
    now.run(order("o-1")).await.assert_duplicate("m-1");
    let other = Event::new([&json!({ "id": "o-1", "cents": 1 })]);
    let answer = before.run(other.clone()).await;
    assert_eq!(answer.outcome("m-1"), Outcome::Failed);
    before.run(order("o-2")).await.assert_processed("m-1");
    let other = Event::new([&json!({ "id": "o-2", "cents": 1 })]);
    let answer = now.run(other).await;
    assert_eq!(
        answer.outcome("m-1"),
        Outcome::Failed,
        "its payload differs"
    );

    // A key in progress under the other ID is in progress here.
    before.another_worker_claims("o-3").await;
    now.run(order("o-3")).await.assert_in_progress("m-1");

    let fresh = before.beside(noting(&tokens).key_secret(secret(7)).also_read_nothing());
    fresh.run(order("o-2")).await.assert_processed("m-1");
    let tokens = tokens.lock().unwrap();
    assert_eq!(
        tokens[1], tokens[2],
        "an event has one token, whatever its hash"
    );
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_rotated_without_repeating_anything() {
    let old = || consumer().key_secret(secret(7)).also_read_nothing();
    let next = namespace(Some(secret(8)));
    let first = Bench::new(old().also_read(next));
    let then = first.beside(
        consumer()
            .key_secret(secret(8))
            .also_read(namespace(Some(secret(7)))),
    );
    let end = first.beside(consumer().key_secret(secret(8)).also_read_nothing());
    let before = first.beside(old());
    before.run(order("o-1")).await.assert_processed("m-1");
    first.run(order("o-1")).await.assert_duplicate("m-1");
    then.run(order("o-1")).await.assert_duplicate("m-1");
    then.run(order("o-2")).await.assert_processed("m-1");
    first.run(order("o-2")).await.assert_duplicate("m-1");
    end.run(order("o-2")).await.assert_duplicate("m-1");
    let answer = then
        .run(Event::new([&json!({ "id": "o-1", "cents": 1 })]))
        .await;
    assert_eq!(
        answer.outcome("m-1"),
        Outcome::Failed,
        "its payload differs"
    );
}

#[tokio::test(start_paused = true)]
async fn work_outside_of_sqs_has_the_ids_of_a_consumer_with_the_same_secret() {
    let bench = Bench::new(consumer().key_secret(secret(7)));
    bench.run(order("o-1")).await.assert_processed("m-1");
    let idempotency = || {
        Idempotency::new()
            .namespace("payments")
            .store(bench.store().clone())
            .clock(bench.clock().clone())
    };
    let ends_at = sqs_once::time::Clock::now(bench.clock()) + std::time::Duration::from_secs(30);
    let work = || async { Ok::<_, HandlerError>(()) };
    let same = idempotency().key_secret(secret(7)).also_read_nothing();
    let run = same.until(ends_at).run("o-1", work).await.unwrap();
    assert!(run.is_duplicate());
    let other = idempotency().key_secret(secret(8)).also_read_nothing();
    let run = other.until(ends_at).run("o-1", work).await.unwrap();
    assert!(!run.is_duplicate());
}

#[tokio::test]
async fn settings_that_a_secret_has_no_meaning_for_refuse_to_start() {
    let error = refusal(consumer().key_secret(secret(7)).readable_keys(true)).await;
    assert!(error.contains("its keys are readable"), "{error}");
    let codec = KeyCodec::powertools_java("orders.handle");
    let consumer = consumer().payload_mismatch(PayloadMismatch::Warn);
    let error = refusal(consumer.key_secret(secret(7)).key_codec(codec)).await;
    assert!(error.contains("has a hash of its own"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_effect_commits_with_its_record_says_that_nothing_was_hashed_without_the_secret()
 {
    let writing = || {
        sqs_once::consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .namespace("payments")
            .key_secret(secret(7))
            .handler(async |_: Value| Ok::<_, HandlerError>(Writes::new()))
    };
    let error = Bench::new(writing()).try_run(order("o-1")).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("SQS_ONCE_ALSO_READ is not set"), "{error}");
    let fresh = Bench::new(writing().also_read_nothing());
    fresh.run(order("o-1")).await.assert_processed("m-1");
}

#[test]
fn a_line_end_behind_a_stored_secret_is_not_part_of_it() {
    let key = BusinessKey::new("o-1").unwrap();
    let id = |secret: KeySecret| namespace(Some(secret)).item_id(&key);
    let plain = "the secret of these tests";
    for line_end in ["\n", "\r\n"] {
        let text = format!("{plain}{line_end}");
        let stored = KeySecret::from_stored(&text).unwrap();
        assert_eq!(id(stored), id(KeySecret::new(plain).unwrap()), "{text:?}");
        // The secret is exactly the bytes that the code passes.
        let exact = KeySecret::new(&text).unwrap();
        assert_ne!(id(exact), id(KeySecret::new(plain).unwrap()), "{text:?}");
    }
}
