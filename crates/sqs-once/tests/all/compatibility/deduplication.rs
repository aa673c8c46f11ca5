//! Deduplication: which deliveries run, and the effects of store errors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::process::this_program;
use serde_json::{Value, json};
use sqs_once::hook::RecordEnd;
use sqs_once::policy::{Cache, InProgress, Mode, PayloadMismatch};
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Bench, Event, Operation, Record};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{EventError, Recorded, consumer};
use tokio::sync::Notify;
use tokio::time::sleep;
use tower_service::Service;

use crate::compatibility::{bench, one, order, orders, told};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn the_first_delivery_claims_runs_once_and_completes() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let holding = {
        let (begun, go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
        consumer::<Value>()
            .key(|order: &Value| order["id"].as_str().map(str::to_owned))
            .handler(move |_: Value| {
                begun.notify_one();
                let go_on = Arc::clone(&go_on);
                async move { go_on.notified().await }
            })
    };
    let bench = Bench::new(holding);
    let meanwhile = async {
        begun.notified().await;
        let item = bench.item("a").await.unwrap();
        assert_eq!(item.status, Status::InProgress);
        go_on.notify_one();
    };
    let (answer, ()) = tokio::join!(bench.run(one("a")), meanwhile);
    answer.assert_processed("m-1");
    assert_eq!(bench.item("a").await.unwrap().status, Status::Completed);
    assert_eq!(bench.store().requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_completed_key_is_skipped_and_acknowledged() {
    let (bench, effects) = bench();
    bench.run(one("a")).await;
    bench
        .run(one("a"))
        .await
        .assert_duplicate("m-1")
        .assert_all_acknowledged();
    assert_eq!(effects.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_key_in_progress_is_skipped_and_not_acknowledged() {
    let (bench, effects) = bench();
    bench.another_worker_claims("a").await;
    bench
        .run(one("a"))
        .await
        .assert_in_progress("m-1")
        .assert_retried(["m-1"]);
    assert!(effects.take().is_empty());
}

/// The local cache never reports a key as in progress.
#[tokio::test(start_paused = true)]
async fn a_key_in_progress_is_never_served_from_the_cache() {
    let (orders, _) = orders();
    let bench = Bench::new(orders.cache(Cache::new(10)));
    bench.another_worker_claims("a").await;
    for requests in 1..=3 {
        bench.run(one("a")).await.assert_in_progress("m-1");
        assert_eq!(bench.store().requests(), requests);
    }
    bench.another_worker_completes("a").await;
    bench.run(one("a")).await.assert_duplicate("m-1");
}

/// A key runs again after its expiry, whether or not the table has deleted the item.
#[tokio::test(start_paused = true)]
async fn a_key_past_its_expiry_runs_again_also_while_its_item_still_stands() {
    let (orders, effects) = orders();
    let bench = Bench::new(orders.retention(MINUTE));
    bench.run(one("a")).await;
    bench.clock().advance(MINUTE + Duration::from_secs(1));
    let item = bench.item("a").await.unwrap();
    assert!(item.expiration.unwrap() < bench.clock().now());
    bench.run(one("a")).await.assert_processed("m-1");

    bench.store().memory().remove(&item.id);
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(effects.take().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_completed_key_in_the_cache_costs_no_request() {
    let (orders, _) = orders();
    let bench = Bench::new(orders.cache(Cache::new(10)));
    bench.run(one("a")).await;
    let requests = bench.store().requests();
    bench.run(one("a")).await.assert_duplicate("m-1");
    assert_eq!(bench.store().requests(), requests);
}

/// A handler that changes its payload does not change the key, which was extracted before.
#[tokio::test(start_paused = true)]
async fn a_handler_that_changes_its_payload_does_not_change_the_key() {
    let changing = consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .handler(async |mut order: Value| {
            order["id"] = json!("another");
            drop(order);
        });
    let bench = Bench::new(changing);
    bench.run(one("a")).await.assert_processed("m-1");
    assert!(bench.item("another").await.is_none());
    bench.run(one("a")).await.assert_duplicate("m-1");
}

/// When the handler fails, the consumer releases the claim and reports the handler's error.
///
/// The item stays with an expired lease. Deleting it would let a late copy of the claim succeed and would reset the
/// fence.
#[tokio::test(start_paused = true)]
async fn a_handlers_error_releases_the_claim_and_is_what_is_reported() {
    let (bench, effects) = bench();
    let event = Event::new([&told("a", "fail")]);
    for _ in 0..2 {
        bench
            .run(&event)
            .await
            .assert_failed("m-1")
            .assert_reason("m-1", "the card was declined");
        let item = bench.item("a").await.unwrap();
        assert_eq!(item.lease_until, Some(Timestamp::default()));
    }
    assert_eq!(effects.take(), ["a", "a"]);
}

/// The fingerprint in the store detects another payload with the same key, even if only a nested field differs.
///
/// By default, such a message is a duplicate with a warning, since the key identifies the event. Peers raise, which is
/// `PayloadMismatch::Reject` here.
#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_payload_is_noticed_from_the_store() {
    let (orders, effects) = orders();
    let bench = Bench::new(orders.clone().payload_mismatch(PayloadMismatch::Reject));
    let cheap = json!({ "id": "a", "card": { "limit": { "cents": 1 } } });
    let dear = json!({ "id": "a", "card": { "limit": { "cents": 2 } } });
    bench.run(Event::new([&cheap])).await;
    bench
        .run(Event::new([&dear]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "two different messages share it");
    let lenient = bench.beside(orders);
    lenient
        .run(Event::new([&dear]))
        .await
        .assert_duplicate("m-1")
        .assert_reason("m-1", "two different messages share it");
    assert_eq!(effects.take(), ["a"]);
}

/// The cache detects it too.
#[tokio::test(start_paused = true)]
async fn the_same_key_with_another_payload_is_noticed_from_the_cache() {
    let (orders, _) = orders();
    let orders = orders.payload_mismatch(PayloadMismatch::Reject);
    let bench = Bench::new(orders.cache(Cache::new(10)));
    bench.run(one("a")).await;
    let requests = bench.store().requests();
    bench
        .run(Event::new([&told("a", "something else")]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "two different messages share it");
    assert_eq!(bench.store().requests(), requests);
}

/// A waiting record takes over a claim whose lease expires, and the wait is bounded.
///
/// Peers read the item after a refusal, and start again if it expired in between. Here the refusal contains the item,
/// so a record waits only if the policy requests it.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_while_a_record_waits_is_taken_over_and_waiting_is_bounded() {
    let (orders, effects) = orders();
    let bench = Bench::new(orders.in_progress(InProgress::Wait(MINUTE)));
    bench.another_worker_claims("a").await;
    bench.another_worker_claims("b").await;
    // Both leases end in 13 s. Then another worker claims b for longer than the invocation lasts.
    bench.clock().advance(Duration::from_secs(20));
    let meanwhile = async {
        sleep(Duration::from_secs(5)).await;
        bench.another_worker_claims("b").await;
    };
    let event = Event::new([&order("a"), &order("b")]);
    let (answer, ()) = tokio::join!(bench.run(&event), meanwhile);
    answer.assert_processed("m-1").assert_in_progress("m-2");
    assert_eq!(effects.take(), ["a"]);
}

/// A failed release changes nothing: the record reports its handler's error, and the lease expires.
#[tokio::test(start_paused = true)]
async fn a_release_that_fails_leaves_the_handlers_error_and_the_lease() {
    let (bench, _) = bench();
    let store = bench.store();
    store.fail(Operation::Release, StoreErrorKind::Other, 1);
    bench
        .run(Event::new([&told("a", "fail")]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "the card was declined")
        .assert_retried(["m-1"]);
    bench.run(one("a")).await.assert_in_progress("m-1");
    bench.clock().advance(MINUTE);
    bench.run(one("a")).await.assert_processed("m-1");
}

/// A failed completion is reported as the store's error, and the record is not acknowledged.
#[tokio::test(start_paused = true)]
async fn a_completion_that_fails_is_the_stores_error_and_is_not_acknowledged() {
    let (bench, _) = bench();
    let store = bench.store();
    store.fail(Operation::Complete, StoreErrorKind::AccessDenied, 1);
    bench
        .run(one("a"))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "could not be recorded: the store denies access")
        .assert_retried(["m-1"]);
}

/// A failed read is reported as the store's error. The record does not run and is not acknowledged.
#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_the_stores_error_and_is_not_acknowledged() {
    let (orders, effects) = orders();
    let bench = Bench::new(orders.mode(Mode::RecordAfter));
    let store = bench.store();
    store.fail(Operation::Read, StoreErrorKind::TableNotFound, 1);
    bench
        .run(one("a"))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "the table does not exist")
        .assert_retried(["m-1"]);
    assert!(effects.take().is_empty());
}

/// A failed claim is reported as the store's error. The record does not run and is not acknowledged.
#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_is_the_stores_error_and_is_not_acknowledged() {
    let (bench, effects) = bench();
    let store = bench.store();
    store.fail(Operation::Claim, StoreErrorKind::KeySchema, 1);
    bench
        .run(one("a"))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "the table has another key schema")
        .assert_retried(["m-1"]);
    assert!(effects.take().is_empty());
}

/// A live lease holds the key until its last millisecond. After that, the key runs again.
#[tokio::test(start_paused = true)]
async fn a_live_lease_is_respected_and_a_lapsed_one_is_not() {
    let (bench, effects) = bench();
    bench.another_worker_claims("a").await;
    let lease_until = bench.item("a").await.unwrap().lease_until.unwrap();
    let left = lease_until.since(bench.clock().now());
    bench.clock().advance(left);
    bench.run(one("a")).await.assert_in_progress("m-1");
    bench.clock().advance(Duration::from_millis(1));
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(effects.take(), ["a"]);
}

/// Without a known deadline nothing starts, since a claim would have no end.
///
/// Peers warn, and lock the key until its expiry.
#[tokio::test(start_paused = true)]
async fn an_invocation_without_a_deadline_is_refused() {
    let (mut orders, effects) = orders();
    let event = serde_json::from_str(one("a").as_json()).unwrap();
    let no_deadline = lambda_runtime::Context::default();
    let refused = orders
        .call(lambda_runtime::LambdaEvent::new(event, no_deadline))
        .await;
    assert!(matches!(refused, Err(EventError::NoDeadline)));
    assert!(effects.take().is_empty());
}

/// An item with an unknown status fails its record, with an error that names the status.
///
/// Peers raise an exception. Here it is an outcome with a reason, and the rest of the batch is not affected.
#[tokio::test(start_paused = true)]
async fn an_unknown_status_fails_its_record_with_an_error_that_names_it() {
    let (bench, effects) = bench();
    bench.another_worker_completes("a").await;
    let item = bench.item("a").await.unwrap();
    bench.store().memory().put({
        let mut item = item;
        item.status = Status::Unknown("PAUSED".to_owned());
        item
    });
    bench
        .run(Event::new([&order("a"), &order("b")]))
        .await
        .assert_failed("m-1")
        .assert_reason("m-1", "\"PAUSED\"")
        .assert_processed("m-2");
    assert_eq!(effects.take(), ["b"]);
}

/// The off switch bypasses the store completely and logs that.
#[test]
fn the_off_switch_bypasses_the_store_and_says_so() {
    const SWITCH: &str = "SQS_ONCE_DISABLED";
    if std::env::var_os(SWITCH).is_none() {
        // Changing the environment of a running process is not safe.
        let name = "the_off_switch_bypasses_the_store_and_says_so";
        let again = this_program(module_path!(), name)
            .arg("--nocapture")
            .env(SWITCH, "true")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && said.contains("1 passed"),
            "{said}"
        );
        assert!(said.contains("SQS_ONCE_DISABLED is set"), "{said}");
        return;
    }
    tracing_subscriber::fmt().init();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (bench, effects) = bench();
        for _ in 0..2 {
            bench.run(one("a")).await.assert_processed("m-1");
        }
        assert_eq!(effects.take(), ["a", "a"]);
        assert_eq!(bench.store().requests(), 0);
    });
}

/// The consumer calls `on_duplicate` only for duplicates, with or without recorded data.
#[tokio::test(start_paused = true)]
async fn the_duplicate_hook_runs_on_replay_only_and_without_recorded_data_too() {
    let replayed = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let replayed = Arc::clone(&replayed);
        move |end: RecordEnd| {
            let receipt = end.recorded::<String>().unwrap();
            replayed.lock().unwrap().push((end.outcome(), receipt));
            std::future::ready(Ok(()))
        }
    };
    let (orders, _) = orders();
    let bench = Bench::new(orders.on_duplicate(noting.clone()));
    bench.run(one("a")).await;
    bench.run(Event::new([&told("b", "fail")])).await;
    assert!(replayed.lock().unwrap().is_empty());
    bench.run(one("a")).await;

    let recording = consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .handler(async |_: Value| Recorded("receipt 7"))
        .on_duplicate(noting);
    let recording = bench.beside(recording);
    recording.run(one("c")).await;
    recording.run(one("c")).await;
    let expected = [None, Some("receipt 7".to_owned())];
    let expected = expected.map(|receipt| (Outcome::Duplicate, receipt));
    assert_eq!(*replayed.lock().unwrap(), expected);
}

/// The next delivery recovers from a timeout: the handler was cancelled, and its lease expires.
#[tokio::test(start_paused = true)]
async fn after_a_timeout_the_next_delivery_recovers() {
    let (bench, effects) = bench();
    bench
        .run(Event::new([&told("a", "hang")]))
        .await
        .assert_failed("m-1")
        .assert_retried(["m-1"]);
    bench.clock().advance(Duration::from_secs(5));
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(effects.take(), ["a", "a"]);
}

/// The next delivery recovers from a killed process too.
#[tokio::test(start_paused = true)]
async fn after_a_crash_the_next_delivery_recovers() {
    let (bench, effects) = bench();
    bench.run_and_crash(one("a")).await;
    bench.run(one("a")).await.assert_in_progress("m-1");
    bench.clock().advance(Duration::from_secs(34));
    bench.run(one("a")).await.assert_processed("m-1");
    assert_eq!(effects.take(), ["a", "a"]);
}

/// One of several concurrent deliveries wins.
#[tokio::test(start_paused = true)]
async fn of_parallel_deliveries_one_wins() {
    let (bench, effects) = bench();
    let event = Event::new([&told("a", "take a second")]);
    let (one, other) = tokio::join!(bench.run(&event), bench.run(&event));
    let mut outcomes = [one, other].map(|answer| answer.outcome("m-1").as_str());
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["in_progress", "processed"]);
    assert_eq!(effects.take(), ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_consumer_used_by_many_tasks_at_once_stays_correct() {
    let (bench, effects) = bench();
    let bench = Arc::new(bench);
    let batches = (0..8).map(|batch| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            let orders = (0..50).map(|at| order(&((at * 7 + batch * 13) % 60).to_string()));
            let orders: Vec<_> = orders.collect();
            bench.run(Event::new(&orders)).await;
        })
    });
    for batch in batches.collect::<Vec<_>>() {
        batch.await.unwrap();
    }
    let mut effects = effects.take();
    assert_eq!(effects.len(), 60);
    effects.sort_unstable();
    effects.dedup();
    assert_eq!(effects.len(), 60);
}

/// Two consumers that share a store never change each other's records.
#[tokio::test(start_paused = true)]
async fn consumers_that_share_a_store_never_touch_each_others_records() {
    let (payments, paid) = orders();
    let (mails, mailed) = orders();
    let payments = Bench::new(payments.namespace("payments"));
    let mails = payments.beside(mails.namespace("mails"));
    payments.run(one("a")).await.assert_processed("m-1");
    mails.run(one("a")).await.assert_processed("m-1");
    payments.another_worker_claims("b").await;
    mails.run(one("b")).await.assert_processed("m-1");
    assert_eq!((paid.take().len(), mailed.take().len()), (1, 2));
    let resent = Event::new([Record::json(&order("a")).message_id("another")]);
    payments.run(&resent).await.assert_duplicate("another");
}
