//! Keys stored under another ID, while a consumer changes its namespace or codec.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::key::KeyError;
use sqs_once::key::{KeyCodec, Namespace};
use sqs_once::policy::{InProgress, Mode, PayloadMismatch};
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::testing::TestSettings;
use sqs_once::testing::{Bench, Event, Operation};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{BusinessKey, Consumer, HandlerError, Idempotency, Recorded, RunError, Writes};

type Runs = Arc<Mutex<Vec<String>>>;

fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

/// A version of the consumer with its own namespace, which also reads another one.
fn version(own: &str, other: Option<&str>, runs: &Runs) -> Consumer {
    let (name, runs) = (own.to_owned(), Arc::clone(runs));
    let consumer = sqs_once::consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .namespace(own)
        .handler(move |order: Value| {
            let run = format!("{} by {name}", order["id"].as_str().unwrap());
            runs.lock().unwrap().push(run);
            async { Recorded(json!({ "receipt": 7 })) }
        });
    match other {
        Some(other) => consumer.also_read(namespace(other)),
        None => consumer,
    }
}

fn event(id: &str) -> Event {
    Event::new([&json!({ "id": id })])
}

fn both() -> (Bench, Bench, Runs) {
    let runs = Runs::default();
    let old = Bench::new(version("old", Some("new"), &runs));
    let new = old.beside(version("new", Some("old"), &runs));
    (old, new, runs)
}

#[tokio::test(start_paused = true)]
async fn what_the_old_version_completed_is_a_duplicate_of_the_new_one_and_noted_there() {
    let (old, new, runs) = both();
    old.run(event("k")).await.assert_processed("m-1");
    new.clock().advance(Duration::from_secs(60));
    new.run(event("k")).await.assert_duplicate("m-1");
    assert_eq!(*runs.lock().unwrap(), ["k by old"]);

    let (before, now) = (old.item("k").await.unwrap(), new.item("k").await.unwrap());
    assert_eq!(now.status, Status::Completed);
    assert_eq!(now.expiration, before.expiration, "and no longer");
    assert_eq!(now.data, before.data);
    // The next delivery needs no second read.
    let requests = new.store().requests();
    new.run(event("k")).await.assert_duplicate("m-1");
    assert_eq!(new.store().requests(), requests + 1);
    // The old version runs again, after the new version ran for a while.
    new.run(event("l")).await.assert_processed("m-1");
    old.run(event("l")).await.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn without_the_other_id_a_key_is_new() {
    let runs = Runs::default();
    let old = Bench::new(version("old", None, &runs));
    let new = old.beside(version("new", None, &runs));
    old.run(event("k")).await.assert_processed("m-1");
    new.run(event("k")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn whom_the_old_version_works_on_goes_back_and_nothing_is_left_claimed() {
    let (old, new, runs) = both();
    old.another_worker_claims("k").await;
    new.run(event("k")).await.assert_in_progress("m-1");
    let item = new.item("k").await.unwrap();
    assert_eq!(item.status, Status::InProgress);
    assert_eq!(item.lease_until, Some(Timestamp::default()), "given up");

    old.another_worker_completes("k").await;
    new.run(event("k")).await.assert_duplicate("m-1");
    assert!(runs.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_lease_and_an_expired_completion_elsewhere_keep_nobody_from_running() {
    let (old, new, runs) = both();
    old.another_worker_claims("k").await;
    old.run(event("l")).await.assert_processed("m-1");
    new.clock().advance(Duration::from_secs(40));
    new.run(event("k")).await.assert_processed("m-1");
    // A worker that lost its lease sees the new version's completion before it retries.
    old.run(event("k")).await.assert_duplicate("m-1");
    new.clock().advance(Duration::from_secs(29 * 24 * 3600));
    new.run(event("l")).await.assert_processed("m-1");
    assert_eq!(*runs.lock().unwrap(), ["l by old", "k by new", "l by new"]);
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_other_id_is_a_mismatch_and_completes_nothing() {
    let runs = Runs::default();
    let old = Bench::new(version("old", Some("new"), &runs));
    let new = version("new", Some("old"), &runs).payload_mismatch(PayloadMismatch::Reject);
    let new = old.beside(new);
    old.run(event("k")).await.assert_processed("m-1");
    let other = Event::new([&json!({ "id": "k", "total": 1 })]);
    new.run(&other).await.assert_failed("m-1");
    assert_eq!(new.item("k").await.unwrap().status, Status::InProgress);
    new.run(event("k")).await.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_look_without_an_answer_runs_nothing_and_the_claim_lapses() {
    for kind in [StoreErrorKind::AccessDenied, StoreErrorKind::Unanswered] {
        let (old, new, runs) = both();
        new.store().fail(Operation::Read, kind, usize::MAX);
        new.run(event("k")).await.assert_failed("m-1");
        assert!(runs.lock().unwrap().is_empty(), "{kind:?}");
        // As if the process had died between its claim and the read.
        new.store().fail(Operation::Read, kind, 0);
        old.run(event("k")).await.assert_in_progress("m-1");
        new.run(event("k")).await.assert_in_progress("m-1");
        old.clock().advance(Duration::from_secs(40));
        old.run(event("k")).await.assert_processed("m-1");
        new.run(event("k")).await.assert_duplicate("m-1");
        assert_eq!(*runs.lock().unwrap(), ["k by old"]);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_of_claim_and_look_are_asked_for_again() {
    let (old, new, runs) = both();
    old.run(event("k")).await.assert_processed("m-1");
    for operation in [Operation::Claim, Operation::Read] {
        new.store().lose_answers(operation, 1);
        new.run(event("l")).await;
        new.store().lose_answers(operation, 1);
        new.run(event("k")).await.assert_duplicate("m-1");
    }
    assert_eq!(*runs.lock().unwrap(), ["k by old", "l by new"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_stays_one_when_the_note_of_it_is_not_written() {
    let (old, new, runs) = both();
    old.run(event("k")).await.assert_processed("m-1");
    let denied = StoreErrorKind::AccessDenied;
    new.store().fail(Operation::Complete, denied, usize::MAX);
    new.run(event("k")).await.assert_duplicate("m-1");
    assert_eq!(new.item("k").await.unwrap().status, Status::InProgress);
    assert_eq!(runs.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_the_other_version_is_its_duplicate_at_the_end() {
    let runs = Runs::default();
    let old = Bench::new(version("old", Some("new"), &runs));
    let wait = InProgress::Wait(Duration::from_secs(10));
    let new = old.beside(version("new", Some("old"), &runs).in_progress(wait));
    old.another_worker_claims("k").await;
    let (answer, ()) = tokio::join!(new.run(event("k")), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        old.another_worker_completes("k").await;
    });
    answer.assert_duplicate("m-1");

    old.another_worker_claims("l").await;
    let (answer, ()) = tokio::join!(new.run(event("l")), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        // The lease expires meanwhile.
        old.clock().advance(Duration::from_secs(60));
    });
    answer.assert_processed("m-1");
    assert_eq!(*runs.lock().unwrap(), ["l by new"]);
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_batch_are_looked_up_together_and_one_by_one_decided() {
    let (old, new, runs) = both();
    old.run(event("done")).await.assert_processed("m-1");
    old.another_worker_claims("busy").await;
    let ids = ["new", "done", "busy", "new too"];
    let batch = Event::new(&ids.map(|id| json!({ "id": id })));
    let requests = new.store().requests();
    new.run(&batch)
        .await
        .assert_processed("m-1")
        .assert_duplicate("m-2")
        .assert_in_progress("m-3")
        .assert_processed("m-4");
    assert_eq!(runs.lock().unwrap().len(), 3);
    let requests = new.store().requests() - requests;
    assert!(requests <= 5, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn two_keys_that_had_one_id_before_are_looked_up_once() {
    let java = KeyCodec::powertools_java("fn.handle");
    let one = java.item_id(&BusinessKey::new("42").unwrap()).unwrap();
    assert_eq!(one, java.item_id(&BusinessKey::new(&42).unwrap()).unwrap());
    let bench = crate::support::Bench::new();
    let consumer = sqs_once::consumer::<Value>()
        .key(|order: &Value| match order["id"].as_i64() {
            Some(id) => BusinessKey::new(&id),
            None => BusinessKey::new(&order["id"].as_str()),
        })
        .also_read(java)
        .handler(async |_: Value| {});
    let consumer = bench.consumer(consumer);
    let bodies = ["{\"id\": 42}", "{\"id\": \"42\"}"].map(crate::support::body);
    let failed = bench.invoke(&consumer, crate::support::event(bodies)).await;
    assert!(failed.is_empty());
    // DynamoDB rejects a read that names a key twice.
    let calls = bench.store.take_calls();
    assert_eq!(calls[..2], [("claim", 2), ("read", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_powertools_record_is_a_duplicate_whatever_its_validation_says() {
    let runs = Runs::default();
    let python = KeyCodec::powertools_python("orders.app.process");
    let old = Bench::new(version("new", None, &runs).key_codec(python.clone()));
    let new = version("new", None, &runs)
        .also_read(python.clone())
        .payload_mismatch(PayloadMismatch::Reject);
    let new = old.beside(new);
    old.run(event("k")).await.assert_processed("m-1");
    let id = python.item_id(&BusinessKey::new("k").unwrap()).unwrap();
    let mut item = old.store().memory().get(&id).unwrap();
    item.fingerprint = Some(sqs_once::key::Fingerprint::from_stored("an MD5"));
    old.store().memory().put(item);
    new.run(event("k")).await.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn codecs_that_agree_on_a_key_do_not_take_its_own_claim_for_anothers() {
    let runs = Runs::default();
    let consumer = version("new", None, &runs)
        .key_codec(KeyCodec::powertools_java("fn.handle"))
        .also_read(KeyCodec::powertools_dotnet("fn.handle"));
    let bench = Bench::new(consumer);
    bench.run(event("k")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn record_after_looks_under_both_ids_and_claims_nothing() {
    let runs = Runs::default();
    let version = |own, other| version(own, Some(other), &runs).mode(Mode::RecordAfter);
    let old = Bench::new(version("old", "new"));
    let new = old.beside(version("new", "old"));
    old.run(event("k")).await.assert_processed("m-1");
    new.run(event("k")).await.assert_duplicate("m-1");
    assert_eq!(new.item("k").await, None);
    new.run(event("l")).await.assert_processed("m-1");
    old.run(event("l")).await.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn record_after_runs_beside_a_claim_of_the_other_id() {
    let runs = Runs::default();
    let version = |own, other| version(own, Some(other), &runs).mode(Mode::RecordAfter);
    let old = Bench::new(version("old", "new"));
    let new = old.beside(version("new", "old"));
    old.another_worker_claims("k").await;
    new.run(event("k")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn work_outside_of_sqs_looks_under_both_ids_too() {
    let (old, _, runs) = both();
    let idempotency = Idempotency::new()
        .namespace("new")
        .also_read(namespace("old"))
        .store(old.store().clone())
        .clock(old.clock().clone());
    let ends_at = old.clock().now() + Duration::from_secs(30);
    let invocation = idempotency.until(ends_at);
    let work = || async { Ok::<_, KeyError>(json!("never")) };
    old.run(event("k")).await.assert_processed("m-1");
    let before = invocation.run("k", work).await.unwrap();
    assert_eq!(before.into_value(), Some(json!({ "receipt": 7 })));
    old.another_worker_claims("l").await;
    let error = invocation.run("l", work).await.unwrap_err();
    assert!(matches!(error, RunError::InProgress { .. }), "{error}");
    assert_eq!(runs.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_kept_apart_refuses_to_start() {
    async fn refused(consumer: Consumer) -> String {
        let error = Bench::new(consumer).try_run(event("k")).await;
        error.unwrap_err().to_string()
    }
    let runs = Runs::default();
    let itself = version("new", Some("new"), &runs);
    let error = refused(itself).await;
    assert!(error.contains("is where its keys are already"), "{error}");

    for mode in [Mode::Transactional, Mode::ClaimFirst] {
        let writes = sqs_once::consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .namespace("new")
            .mode(mode)
            .also_read(namespace("old"))
            .handler(async |_: Value| Ok::<_, HandlerError>(Writes::new()));
        let error = refused(writes).await;
        assert!(error.contains("commits with the record"), "{error}");
    }
}
