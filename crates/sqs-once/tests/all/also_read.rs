//! Keys stored under another ID, while a consumer changes its namespace or codec.

use std::sync::Mutex;
use std::time::Duration;

use lambda_runtime::Context;
use serde_json::{Value, json};
use sqs_once::key::{Fingerprint, Ids, ItemId, KeyCodec, KeyError, Namespace, OwnIds};
use sqs_once::once::RunError;
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::{Fence, Owner, Settlement, Settling, Status, StoreErrorKind, Timestamp};
use sqs_once::telemetry::Outcome::{self, Duplicate, Failed, InProgress, Processed, Terminal};
use sqs_once::testing::{Bench, Event, Operation};
use sqs_once::{BusinessKey, Completion, Consumer, Handler, Idempotency};
use tokio::time::sleep;

use crate::also_read_attempts::failing;
use crate::support::{Mode, SECOND, Seen, TestStore, failures, invoke, one, several, values};

pub(crate) fn namespace(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

/// A version of the handler with its own namespace.
pub(crate) fn version(own: &str, runs: &Seen) -> Handler {
    version_in(Mode::ClaimFirst, own, runs)
}

fn version_in(mode: Mode, own: &str, runs: &Seen) -> Handler {
    let (name, runs) = (own.to_owned(), runs.clone());
    let handler = mode.call(values(), move |order: Value| {
        let run = format!("{} by {name}", order["id"].as_str().unwrap());
        runs.add(run);
        async { Completion(json!({ "receipt": 7 })) }
    });
    handler.namespace(own)
}

/// Two versions with these settings, each of which also reads the other's namespace.
fn both_with(settings: fn(Handler) -> Handler) -> (Bench, Bench, Seen) {
    let runs = Seen::default();
    let (old, new) = pair(|own| settings(version(own, &runs)));
    (old, new, runs)
}

fn both() -> (Bench, Bench, Seen) {
    both_with(|it| it)
}

/// The versions with the namespaces `old` and `new`, each of which also reads the other's.
pub(crate) fn pair(version: impl Fn(&'static str) -> Handler) -> (Bench, Bench) {
    let [old, new] = [("old", "new"), ("new", "old")]
        .map(|(own, other)| version(own).ids(Ids::hashed().also_read(namespace(other))));
    let old = Bench::new(old);
    let new = old.beside(new);
    (old, new)
}

#[tokio::test(start_paused = true)]
async fn what_the_old_version_completed_is_a_duplicate_of_the_new_one_and_noted_there() {
    let (old, new, runs) = both();
    old.run(one("k")).await.assert_processed("m-1");
    new.clock().advance(60 * SECOND);
    ends("k", [(&new, Duplicate)]).await;
    assert_eq!(runs.all(), ["k by old"]);

    let (before, now) = (old.item("k").await.unwrap(), new.item("k").await.unwrap());
    assert_eq!(now.status, Status::Completed);
    assert_eq!(now.expiration, before.expiration, "and no longer");
    assert_eq!(now.data, before.data);
    // The next delivery needs no second read.
    let requests = new.store().requests();
    new.run(one("k")).await.assert_duplicate("m-1");
    assert_eq!(new.store().requests(), requests + 1);
    // A key without another item costs a look.
    new.run(one("l")).await.assert_processed("m-1");
    assert_eq!(new.store().requests(), requests + 1 + 3);
    // The old version runs again, after the new version ran for a while.
    old.run(one("l")).await.assert_duplicate("m-1");
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The codec of Powertools for Python, and a key's ID there.
pub(crate) fn of_python(key: &str) -> (KeyCodec, ItemId) {
    let python = KeyCodec::powertools_python("orders.app.process");
    let id = python.item_id(&BusinessKey::new(key).unwrap());
    (python, id.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_switch_of_readable_keys_forgets_no_key_while_the_other_form_is_read() {
    let runs = Seen::default();
    let [old, new] = [(Ids::hashed(), true), (Ids::readable(), false)].map(|(ids, other)| {
        let other = namespace("orders").readable_keys(other);
        version("orders", &runs).ids(ids.also_read(other))
    });
    let old = Bench::new(old);
    let new = old.beside(new);
    ends("k", [(&old, Processed), (&new, Duplicate)]).await;
    ends("l", [(&new, Processed), (&old, Duplicate)]).await;
}

/// Delivers the key's message to each of these benches, where it ends like this.
pub(crate) async fn ends<const N: usize>(key: &str, ends: [(&Bench, Outcome); N]) {
    for (at, (bench, outcome)) in ends.into_iter().enumerate() {
        let answer = bench.run(one(key)).await;
        assert_eq!(answer.outcome("m-1"), outcome, "delivery {at} of {key}");
    }
}

/// Forgets a key under the id of this version, as `cargo sqs-once key forget` does.
pub(crate) async fn forget(bench: &Bench, key: &str) {
    let mut item = bench.item(key).await.unwrap();
    item.status = Status::InProgress;
    item.lease_until = Some(Timestamp::default());
    item.data = None;
    item.owner = Some(Owner::from_bits(7));
    let now = Fence::first(bench.clock().now());
    item.fence = Some(item.fence.map_or(now, |fence| fence.next().max(now)));
    bench.store().memory().put(item);
}

#[tokio::test(start_paused = true)]
async fn a_key_with_two_ids_is_forgotten_only_if_both_are() {
    for (forgotten, next) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        // An attempt that is too old to repeat.
        let (old, new, calls) = failing();
        let versions = [&old, &new];
        let both_fail = [(&old, Failed), (&new, Failed)];
        ends("k", both_fail).await;
        new.clock().advance(25 * HOUR);
        forget(versions[forgotten], "k").await;
        ends("k", [(versions[next], Terminal)]).await;
        for version in versions {
            forget(version, "k").await;
        }
        ends("k", both_fail).await;
        assert_eq!(calls.len(), 4);

        // A completion, which a duplicate has copied to the other id.
        let (old, new, runs) = both();
        let versions = [&old, &new];
        ends("k", [(&old, Processed), (&new, Duplicate)]).await;
        forget(versions[forgotten], "k").await;
        ends("k", [(versions[next], Duplicate)]).await;
        for version in versions {
            forget(version, "k").await;
        }
        ends("k", [(versions[next], Processed)]).await;
        assert_eq!(runs.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_copied_completion_does_not_name_the_payload_of_the_duplicate() {
    let (python, id) = of_python("k");
    let order = |total| Event::new([&json!({ "id": "k", "total": total })]);
    for validation in [None, Some(Fingerprint::from_stored("an MD5"))] {
        let runs = Seen::default();
        let old = Bench::new(version("new", &runs).ids(python.clone()));
        let new = version("new", &runs).ids(Ids::hashed().also_read(python.clone()));
        let new = old.beside(new.payload_mismatch(PayloadMismatch::Retry));
        old.run(&order(1)).await.assert_processed("m-1");
        let mut item = old.store().memory().get(&id).unwrap();
        item.fingerprint = validation;
        old.store().memory().put(item);
        for total in [2, 1, 2] {
            new.run(&order(total)).await.assert_duplicate("m-1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_other_id_is_a_mismatch_and_completes_nothing() {
    let (old, new, _) = both_with(|it| it.payload_mismatch(PayloadMismatch::Retry));
    let order = |total| Event::new([&json!({ "id": "k", "total": total })]);
    old.run(&order(1)).await.assert_processed("m-1");
    new.run(&order(2)).await.assert_failed("m-1");
    assert_eq!(new.item("k").await.unwrap().status, Status::InProgress);
    new.run(&order(1)).await.assert_duplicate("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_look_without_an_answer_runs_nothing_and_the_claim_lapses() {
    for kind in [StoreErrorKind::AccessDenied, StoreErrorKind::Unanswered] {
        let (old, new, runs) = both();
        new.store().fail(Operation::Read, kind, usize::MAX);
        new.run(one("k")).await.assert_failed("m-1");
        assert!(runs.all().is_empty(), "{kind:?}");
        // As if the process had died between its claim and the read.
        new.store().fail(Operation::Read, kind, 0);
        ends("k", [(&old, InProgress), (&new, InProgress)]).await;
        old.clock().advance(40 * SECOND);
        ends("k", [(&old, Processed), (&new, Duplicate)]).await;
        assert_eq!(runs.all(), ["k by old"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_stays_one_when_the_note_of_it_is_not_written() {
    let (old, new, runs) = both();
    old.run(one("k")).await.assert_processed("m-1");
    let denied = StoreErrorKind::AccessDenied;
    new.store().fail(Operation::Complete, denied, usize::MAX);
    new.run(one("k")).await.assert_duplicate("m-1");
    assert_eq!(new.item("k").await.unwrap().status, Status::InProgress);
    assert_eq!(runs.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_the_other_version_is_its_duplicate_at_the_end() {
    let wait = |it: Handler| it.in_progress_wait(10 * SECOND);
    let (old, new, runs) = both_with(wait);
    old.another_worker_claims("k").await;
    let (answer, ()) = tokio::join!(new.run(one("k")), async {
        sleep(3 * SECOND).await;
        old.another_worker_completes("k").await;
    });
    answer.assert_duplicate("m-1");

    old.another_worker_claims("l").await;
    let lease_until = old.item("l").await.unwrap().lease_until.unwrap();
    let left = lease_until.since(old.clock().now());
    old.clock().advance(left - 5 * SECOND);
    let (answer, ()) = tokio::join!(new.run(one("l")), async {
        sleep(3 * SECOND).await;
        // The lease expires meanwhile.
        old.clock().advance(5 * SECOND);
    });
    answer.assert_processed("m-1");
    assert_eq!(runs.all(), ["l by new"]);
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_batch_are_looked_up_together_and_one_by_one_decided() {
    let (old, new, runs) = both();
    old.run(one("done")).await.assert_processed("m-1");
    old.another_worker_claims("busy").await;
    let batch = several(["new", "done", "busy", "new too"]);
    let requests = new.store().requests();
    let answer = new.run(&batch).await;
    answer.assert_processed("m-1").assert_duplicate("m-2");
    answer.assert_in_progress("m-3").assert_processed("m-4");
    assert_eq!(runs.len(), 3);
    let requests = new.store().requests() - requests;
    assert!(requests <= 5, "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_no_end_of_a_claim_that_another_record_had_to_give_back() {
    let (old, _, runs) = both();
    old.another_worker_claims("busy").await;
    let memory = old.store().memory().clone();
    let mut busy = old.item("busy").await.unwrap();
    busy.lease_until = Some(Timestamp::now() + HOUR);
    memory.put(busy);
    let gives_back = |settlement: &Settlement| match settlement.settling {
        Settling::Renew { lease_until, .. } => lease_until == Timestamp::default(),
        _ => matches!(settlement.settling, Settling::Release),
    };
    let store = TestStore::over(old.store().clone()).settlements_take(move |settlements| {
        let are_lost = settlements.iter().any(gives_back);
        Duration::MAX * u32::from(are_lost)
    });
    let noting = runs.clone();
    let new = values().call(move |order: Value| {
        noting.add(order["id"].to_string());
        sleep(SECOND)
    });
    let new = new
        .namespace("new")
        .ids(Ids::hashed().also_read(namespace("old")));
    let new = Consumer::new(new).store(store);
    let event = several(["busy", "free"]);
    let answer = invoke(&new, &event, Context::default()).await;
    assert_eq!(failures(&answer), ["m-1"]);
    assert_eq!(runs.all(), [r#""free""#]);
}

#[tokio::test(start_paused = true)]
async fn no_handler_runs_while_an_old_owner_could_not_be_fenced_off() {
    let (old, _, runs) = both();
    old.another_worker_claims("k").await;
    let memory = old.store().memory().clone();
    let lapsed = old.item("k").await.unwrap();
    let owner = lapsed.owner;
    // Its owner carries a fence over just before the new version takes the item.
    let mut carried = lapsed.clone();
    carried.fence = lapsed.fence.map(Fence::next);
    let carried = Mutex::new(Some(carried));
    let store = TestStore::over(old.store().clone()).claims_take(move |claims| {
        if claims.iter().any(|claim| claim.id == lapsed.id) {
            let carried = carried.lock().unwrap().take();
            carried.into_iter().for_each(|item| memory.put(item));
        }
        Duration::ZERO
    });
    let new = version("new", &runs).ids(Ids::hashed().also_read(namespace("old")));
    let new = Consumer::new(new).store(store);
    let answer = invoke(&new, &one("k"), Context::default()).await;
    assert_eq!((answer.batch_item_failures.len(), runs.len()), (0, 1));
    assert_ne!(old.item("k").await.unwrap().owner, owner);
}

#[tokio::test(start_paused = true)]
async fn two_keys_that_had_one_id_before_are_looked_up_once() {
    let java = KeyCodec::powertools_java("fn.handle");
    let one = java.item_id(&BusinessKey::new("42").unwrap()).unwrap();
    assert_eq!(one, java.item_id(&BusinessKey::new(&42).unwrap()).unwrap());
    let bench = crate::support::Bench::new();
    let keyed = Handler::json::<Value>().key(|order: &Value| match order["id"].as_i64() {
        Some(id) => BusinessKey::new(&id),
        None => BusinessKey::new(&order["id"].as_str()),
    });
    let handler = keyed.call(async |_: Value| {});
    let consumer = bench.consumer(handler.ids(Ids::hashed().also_read(java)));
    let bodies = ["{\"id\": 42}", "{\"id\": \"42\"}"].map(crate::support::body);
    assert_eq!(bench.deliver(&consumer, bodies).await, [""; 0]);
    // DynamoDB rejects a read that names a key twice.
    let calls = bench.store.take_calls();
    assert_eq!(calls[..2], [("claim", 2), ("read", 1)]);
}

#[tokio::test(start_paused = true)]
async fn codecs_that_agree_on_a_key_do_not_take_its_own_claim_for_anothers() {
    let runs = Seen::default();
    let java = OwnIds::from(KeyCodec::powertools_java("fn.handle"));
    let ids = java.also_read(KeyCodec::powertools_dotnet("fn.handle"));
    let bench = Bench::new(version("new", &runs).ids(ids));
    ends("k", [(&bench, Processed)]).await;
}

#[tokio::test(start_paused = true)]
async fn record_after_looks_under_both_ids_claims_nothing_and_runs_beside_a_claim() {
    let runs = Seen::default();
    let (old, new) = pair(|own| version_in(Mode::RecordAfter, own, &runs));
    ends("k", [(&old, Processed), (&new, Duplicate)]).await;
    assert_eq!(new.item("k").await, None);
    ends("l", [(&new, Processed), (&old, Duplicate)]).await;
    // A claim of the other ID holds nothing up.
    old.another_worker_claims("m").await;
    new.run(one("m")).await.assert_processed("m-1");
}

#[tokio::test(start_paused = true)]
async fn work_outside_of_sqs_looks_under_both_ids_too() {
    let (old, _, runs) = both();
    let ids = Ids::hashed().also_read(namespace("old"));
    let idempotency = Idempotency::new(Handler::work().namespace("new").ids(ids))
        .store(old.store().clone())
        .clock(old.clock().clone());
    let invocation = idempotency.until(old.clock().now() + 30 * SECOND);
    let work = || async { Ok::<_, KeyError>(json!("never")) };
    old.run(one("k")).await.assert_processed("m-1");
    let before = invocation.run("k", work).await.unwrap();
    assert_eq!(before.into_value(), Some(json!({ "receipt": 7 })));
    old.another_worker_claims("l").await;
    let error = invocation.run("l", work).await.unwrap_err();
    assert!(matches!(error, RunError::InProgress { .. }), "{error}");
    assert_eq!(runs.len(), 1);
}
