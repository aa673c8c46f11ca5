//! The store's first request at the start: its benefits, and that its failure does not prevent the start. The start draws
//! no owner, which a snapshot could repeat.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::support::wire::Wire;
use crate::support::{Mode, SECOND, Tested, dynamodb, invoke, noting, noting_in, one, values};
use lambda_runtime::Context;
use serde_json::Value;
use sqs_once::Consumer;
use sqs_once::store::StoreErrorKind::{
    AccessDenied, KeySchema, NoCredentials, Other, TableNotFound, Throttled, Unanswered,
};
use sqs_once::unstable::{Random, Simulated};
use sqs_once_local::TableDescription;

/// The consumer handles a batch normally.
async fn assert_works(bench: &Tested) {
    let retried = bench.run(["a"]).await;
    assert_eq!(retried, [""; 0], "{}", bench.log.all());
}

#[tokio::test(start_paused = true)]
async fn a_start_is_one_read_that_finds_nothing() {
    for mode in Mode::BOTH {
        let (bench, _) = noting_in(mode);
        bench.consumer.init().await.unwrap();
        assert_eq!(bench.store.take_calls(), [("read", 1)]);
        assert!(bench.log.take("sqs_once::store").is_empty());
        assert_works(&bench).await;
    }
    // Without SQS, it is the same read.
    let (bench, _) = noting();
    bench.store.fail("read", TableNotFound, 1);
    bench.idempotency().init().await.unwrap();
    assert_eq!(bench.store.take_calls(), [("read", 1)]);
    assert_eq!(bench.log.take("sqs_once::store").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_the_store_refuses_says_what_to_do_and_succeeds() {
    for (kind, level, fix) in [
        (TableNotFound, "ERROR", "SQS_ONCE_TABLE"),
        (AccessDenied, "ERROR", "the function's role"),
        (NoCredentials, "ERROR", "AWS_ACCESS_KEY_ID"),
        (KeySchema, "ERROR", "partition key `id`"),
        (Other, "ERROR", "see its message"),
        (Throttled, "WARN", "capacity"),
        (Unanswered, "WARN", "endpoint"),
    ] {
        let (bench, _) = noting();
        bench.store.fail("read", kind, 1);
        bench.consumer.init().await.unwrap();
        let [line] = bench.log.take("sqs_once::store").try_into().unwrap();
        assert_eq!(line["level"], level);
        assert!(line["error"].contains(fix), "{line:?}");
        assert_works(&bench).await;
    }
}

/// A consumer whose store takes this time for a read.
fn reading(time: impl Fn() -> Duration + Send + Sync + 'static) -> Tested {
    let (bench, _) = noting();
    bench.store.reads_take(move |_| time());
    bench
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_three_seconds_for_a_silent_store_and_survives_one_that_panics() {
    for (time, waits, level) in [
        ((|| Duration::MAX) as fn() -> Duration, 3 * SECOND, "WARN"),
        (|| unimplemented!(), Duration::ZERO, "ERROR"),
    ] {
        let bench = reading(time);
        bench.consumer.init().await.unwrap();
        assert_eq!(bench.elapsed(), waits, "{level}");
        let [line] = bench.log.take("sqs_once::store").try_into().unwrap();
        assert_eq!(line["level"], level);
        assert_works(&bench).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_logs_how_many_milliseconds_the_first_request_took() {
    let bench = reading(|| SECOND / 4);
    bench.consumer.init().await.unwrap();
    let lines = bench.log.take("sqs_once::idempotency::connect");
    assert_eq!(lines[0]["duration_ms"], "250.0");
}

#[tokio::test]
async fn the_first_batch_uses_the_connection_that_the_start_has_opened() {
    let local = dynamodb::local(&TableDescription::default()).await;
    let wire = Wire::to(&local.endpoint()).await;
    let store = dynamodb::store(&wire.endpoint());
    let handler = values().call(async |_: Value| {}).namespace("test");
    let consumer = Consumer::new(handler).store(store);
    consumer.init().await.unwrap();
    assert_eq!(wire.connections(), 1);

    let answer = invoke(&consumer, &one("o-1"), Context::default()).await;
    assert!(answer.batch_item_failures.is_empty());
    assert_eq!(wire.connections(), 1);
}

/// The operating system's generator. Its numbers depend on the environment, not on the memory that a snapshot restores.
#[derive(Clone, Default)]
struct Environment(Arc<AtomicU64>);

impl Random for Environment {
    fn bits(&self) -> u128 {
        self.0.load(SeqCst).into()
    }
}

#[tokio::test(start_paused = true)]
async fn consumers_restored_from_one_snapshot_claim_with_different_owners() {
    let mut owners = HashSet::new();
    for environment in [1, 2] {
        let random = Environment::default();
        let bench = noting().0;
        let bench = bench.with_consumer(|it| it.with_random(random.clone()));
        // Lambda takes a snapshot after the start, so both consumers have the same memory here.
        bench.consumer.init().await.unwrap();
        random.0.store(environment, SeqCst);
        assert_works(&bench).await;
        owners.insert(bench.store.item("a").unwrap().owner.unwrap());
    }
    assert_eq!(owners.len(), 2, "{owners:?}");
}
