//! Handlers in a transaction of their store: the claim, the effect and the completion commit together or not at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::database::{Database, Ledger, Turn};
use crate::support::{Bench, Order, Seen, body, event, order, outcomes};
use sqs_once::extract::Attempt;
use sqs_once::hook::RecordEnd;
use sqs_once::policy::{Cache, InProgress, PayloadMismatch};
use sqs_once::store::{Fence, Item, Owner, Status, StoreErrorKind};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Consumer, HandlerError, Recorded, ResultExt, consumer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// A consumer whose handler writes its order's ID, and the orders of its calls. Orders named `bad…` fail, `hopeless…`
/// are terminal, `panics…` panic, `slow…` never end, `brief…` take a second, and `ends…` end their transaction.
fn booking(bench: &Bench, database: &Database) -> (Consumer, Seen) {
    let seen = Seen::default();
    let called = Arc::clone(&seen);
    let handler = move |order: Order, ledger: Ledger| {
        called.lock().unwrap().push(order.id.clone());
        async move {
            ledger.write(&order.id);
            match order
                .id
                .trim_end_matches(|end: char| end == '-' || end.is_ascii_digit())
            {
                "bad" => Err("no luck")?,
                "hopeless" => Err("no use").terminal()?,
                "panics" => panic!("what a surprise"),
                "slow" => sleep(Duration::MAX).await,
                "brief" => sleep(SECOND).await,
                "ends" => ledger.end(),
                _ => {}
            }
            Ok::<_, HandlerError>(Recorded(format!("receipt of {}", order.id)))
        }
    };
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(handler);
    (bench.consumer(consumer).store(database.clone()), seen)
}

fn setup() -> (Bench, Database, Consumer, Seen) {
    let bench = Bench::new();
    let database = Database::beside(&bench.store);
    let (consumer, seen) = booking(&bench, &database);
    (bench, database, consumer, seen)
}

/// Another worker's item, written without a transaction.
fn foreign(bench: &Bench, id: &str, status: Status, lease: Duration) {
    let key = sqs_once::BusinessKey::new(id).unwrap();
    bench.store.inner.put({
        let mut item = Item::new(crate::support::item_id(&key), status);
        item.lease_until = Some(bench.clock.now() + lease);
        item.expiration = Some(bench.clock.now() + 3600 * SECOND);
        item.owner = Some(Owner::from_bits(7));
        item
    });
}

fn reasons(bench: &Bench) -> Vec<String> {
    let lines = bench.log.take("sqs_once::record").into_iter();
    lines
        .map(|mut line| line.remove("reason").unwrap_or_default())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn effect_and_record_commit_together_in_one_transaction() {
    let (bench, database, consumer, _) = setup();
    let failed = bench.invoke(&consumer, event(["a", "b"].map(order))).await;
    assert_eq!(failed, [""; 0]);
    assert_eq!(database.effects(), ["a", "b"]);
    for id in ["a", "b"] {
        let item = bench.store.item(id).unwrap();
        assert_eq!(item.status, Status::Completed);
        assert_eq!(item.data, Some(format!("\"receipt of {id}\"").into()));
    }
    let mut calls = bench.store.take_calls();
    calls.sort_unstable();
    assert_eq!(
        calls,
        [("begin", 1), ("begin", 1), ("commit", 1), ("commit", 1)]
    );
    assert_eq!(database.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_is_acknowledged_and_its_handler_not_called() {
    let (bench, database, consumer, seen) = setup();
    for outcome in ["processed", "duplicate"] {
        let failed = bench.invoke(&consumer, event([order("a")])).await;
        assert_eq!(failed, [""; 0]);
        assert_eq!(bench.outcomes(), outcomes([("m-0", outcome)]));
    }
    assert_eq!(*seen.lock().unwrap(), ["a"]);
    assert_eq!(database.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_twice_in_a_batch_is_one_transaction() {
    let (bench, database, consumer, _) = setup();
    let batch = event(["a", "a"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, [""; 0]);
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "processed"), ("m-1", "duplicate")])
    );
    assert_eq!(database.effects(), ["a"]);

    let batch = event(["bad", "bad"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    assert_eq!(database.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_rolled_back_and_its_key_is_free_at_once() {
    for id in ["bad", "hopeless", "panics", "slow", "ends"] {
        for record_timeout in [None, Some(SECOND)] {
            let (bench, database, consumer, seen) = setup();
            let consumer = match record_timeout {
                Some(limit) => consumer.record_timeout(limit),
                None => consumer,
            };
            for delivery in 1..=2 {
                let failed = bench.invoke(&consumer, event([order(id)])).await;
                assert_eq!(failed, ["m-0"], "{id}");
                assert_eq!(database.open(), 0, "{id}");
                assert_eq!(database.effects(), [""; 0], "{id}");
                assert_eq!(bench.store.item(id), None, "{id}");
                // There is no lease to wait for.
                assert_eq!(seen.lock().unwrap().len(), delivery, "{id}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_ended_its_transaction_is_not_acknowledged() {
    let (bench, database, consumer, _) = setup();
    assert_eq!(
        bench.invoke(&consumer, event([order("ends")])).await,
        ["m-0"]
    );
    assert_eq!(database.effects(), [""; 0]);
    let reasons = reasons(&bench);
    assert!(
        reasons[0].contains("its effect did not commit"),
        "{reasons:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_live_claim_of_another_worker_is_not_run_and_not_acknowledged() {
    let (bench, database, consumer, seen) = setup();
    foreign(&bench, "a", Status::InProgress, 60 * SECOND);
    let failed = bench.invoke(&consumer, event(["a", "b"].map(order))).await;
    assert_eq!(failed, ["m-0"]);
    assert_eq!(
        bench.outcomes(),
        outcomes([("m-0", "in_progress"), ("m-1", "processed")])
    );
    assert_eq!(*seen.lock().unwrap(), ["b"]);

    sleep(61 * SECOND).await;
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(database.effects(), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_knows_is_not_run() {
    let (bench, database, consumer, _) = setup();
    foreign(&bench, "a", Status::Unknown("PAUSED".to_owned()), SECOND);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert!(reasons(&bench)[0].contains("\"PAUSED\""));
    assert_eq!(database.effects(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_same_key_is_not_run_whatever_becomes_of_it() {
    for (policy, outcome) in [
        (PayloadMismatch::Warn, "duplicate"),
        (PayloadMismatch::Reject, "failed"),
        (PayloadMismatch::Ignore, "duplicate"),
    ] {
        let (bench, database, consumer, _) = setup();
        let consumer = consumer.payload_mismatch(policy);
        bench.invoke(&consumer, event([order("a")])).await;
        bench.outcomes();
        let other = body(r#"{"id": "a", "total": 7}"#);
        bench.invoke(&consumer, event([other])).await;
        assert_eq!(bench.outcomes(), outcomes([("m-0", outcome)]));
        assert_eq!(database.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_transaction_runs_when_that_was_rolled_back() {
    let (bench, database, consumer, _) = setup();
    let held = database.lock("a").await;
    tokio::spawn(async move {
        sleep(SECOND).await;
        drop(held);
    });
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "processed")]));
    assert_eq!(database.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn two_deliveries_at_the_same_time_have_one_effect_and_the_other_is_a_duplicate() {
    let (bench, database, consumer, seen) = setup();
    let (one, other) = tokio::join!(
        bench.invoke(&consumer, event([order("brief")])),
        bench.invoke(&consumer, event([order("brief")])),
    );
    assert_eq!((one, other), (vec![], vec![]));
    let mut told: Vec<_> = bench.outcomes().into_iter().map(|(_, it)| it).collect();
    told.sort();
    assert_eq!(told, ["duplicate", "processed"]);
    assert_eq!(database.effects(), ["brief"]);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_transaction_holds_up_no_other_record_and_waits_until_the_deadline() {
    let (bench, database, consumer, seen) = setup();
    let consumer = consumer.concurrency(2);
    let held = database.lock("a").await;
    let begun = bench.clock.now();
    let batch = event(["a", "b", "c", "d"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0"]);
    assert_eq!(bench.clock.now().since(begun), bench.timeout - SECOND);
    assert_eq!(database.effects(), ["b", "c", "d"]);
    let lines = bench.log.take("sqs_once::record");
    let others = lines.iter().filter(|line| line["outcome"] == "processed");
    assert!(others.into_iter().all(|line| line["duration_ms"] == "0.0"));

    drop(held);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(*seen.lock().unwrap(), ["b", "c", "d", "a"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_transactions_are_open_than_handlers_may_run_commits_included() {
    let (bench, database, consumer, _) = setup();
    let consumer = consumer.concurrency(3);
    database.begins_always(Turn::Delay(Duration::from_millis(20)));
    database.commits_always(Turn::Delay(Duration::from_millis(700)));
    let batch = (0..20).map(|at| order(&format!("brief-{at}")));
    let begun = Instant::now();
    assert_eq!(bench.invoke(&consumer, event(batch)).await, [""; 0]);
    assert_eq!(database.effects().len(), 20);
    assert_eq!(database.most_open(), 3);
    // Seven rounds of three, in which no connection was idle.
    assert!(begun.elapsed() < 7 * Duration::from_millis(1750));
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_transaction_is_not_waited_for_whatever_the_policy() {
    let (bench, database, consumer, _) = setup();
    let policy = InProgress::Wait(20 * SECOND);
    let consumer = consumer.concurrency(2).in_progress(policy);
    for at in 0..4 {
        foreign(&bench, &format!("a-{at}"), Status::InProgress, 3 * SECOND);
    }
    let claimed = (0..4).map(|at| order(&format!("a-{at}")));
    let batch = claimed.chain((0..4).map(|at| order(&format!("brief-{at}"))));
    let failed = bench.invoke(&consumer, event(batch)).await;
    assert_eq!(failed, ["m-0", "m-1", "m-2", "m-3"]);
    assert_eq!(database.effects().len(), 4);
    assert_eq!(database.most_open(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_fails_for_the_moment_is_tried_again_until_the_deadline() {
    let (bench, database, consumer, _) = setup();
    let busy = || Turn::Fail(StoreErrorKind::Throttled);
    database.begins([busy(), busy(), Turn::Fail(StoreErrorKind::Unanswered)]);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(database.effects(), ["a"]);

    database.begins_always(busy());
    let begun = bench.clock.now();
    let batch = event(["b", "c"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    assert!(bench.clock.now().since(begun) <= bench.timeout);
    assert_eq!(database.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_is_denied_fails_its_record_with_one_line_that_names_the_fix() {
    let (bench, database, consumer, seen) = setup();
    database.begins_always(Turn::Fail(StoreErrorKind::AccessDenied));
    let batch = (0..30).map(|at| order(&at.to_string()));
    assert_eq!(bench.invoke(&consumer, event(batch)).await.len(), 30);
    assert_eq!(*seen.lock().unwrap(), [""; 0]);
    assert_eq!(bench.log.take("sqs_once::store").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_never_answers_does_not_hold_up_the_answer() {
    for (begins, commits) in [(Turn::Hang, Turn::Do), (Turn::Do, Turn::Hang)] {
        let (bench, database, consumer, _) = setup();
        database.begins_always(begins);
        database.commits_always(commits);
        let begun = bench.clock.now();
        let batch = event(["a", "b"].map(order));
        assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
        assert!(bench.clock.now().since(begun) < bench.timeout);
        // The batch's task ends after the answer.
        tokio::task::yield_now().await;
        assert_eq!(database.open(), 0);
        assert_eq!(database.effects(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_was_lost_fails_its_record_which_comes_back_as_a_duplicate() {
    let (bench, database, consumer, seen) = setup();
    database.commits([Turn::LoseAnswer]);
    let begun = bench.clock.now();
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    // The consumer does not repeat the commit, since the transaction is gone.
    assert_eq!(bench.clock.now(), begun);
    let reasons = reasons(&bench);
    assert!(
        reasons[0].contains("its next delivery will find whether its effect committed"),
        "{reasons:?}"
    );
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "duplicate")]));
    assert_eq!(database.effects(), ["a"]);
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_failed_is_not_sent_again_and_the_next_delivery_runs() {
    let (bench, database, consumer, _) = setup();
    for kind in [
        StoreErrorKind::Throttled,
        StoreErrorKind::Unanswered,
        StoreErrorKind::Other,
    ] {
        database.commits([Turn::Fail(kind)]);
        bench.store.take_calls();
        assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
        assert_eq!(bench.store.take_calls(), [("begin", 1), ("commit", 1)]);
        assert_eq!(database.effects(), [""; 0]);
    }
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(database.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_denied_fails_its_record_alone() {
    let (bench, database, consumer, _) = setup();
    let consumer = consumer.concurrency(1);
    database.commits([Turn::Fail(StoreErrorKind::AccessDenied)]);
    let batch = event(["a", "b", "c"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0"]);
    assert_eq!(database.effects(), ["b", "c"]);
    assert_eq!(database.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_fifo_group_begins_when_the_commit_before_it_is_answered() {
    let (bench, database, consumer, seen) = setup();
    let gate = Arc::new(Notify::new());
    database.commits([Turn::Hold(Arc::clone(&gate))]);
    let batch = event(["a", "b"].map(|id| crate::support::grouped("g", id)));
    let (failed, ()) = tokio::join!(bench.invoke(&consumer, batch), async {
        sleep(SECOND).await;
        assert_eq!(*seen.lock().unwrap(), ["a"]);
        assert_eq!(database.open(), 1);
        gate.notify_one();
    });
    assert_eq!(failed, [""; 0]);
    assert_eq!(database.effects(), ["a", "b"]);

    database.commits([Turn::LoseAnswer]);
    let batch = event(["c", "d"].map(|id| crate::support::grouped("g", id)));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    assert_eq!(database.effects(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_opens_when_nothing_is_started_any_more_is_dropped() {
    let (bench, database, consumer, seen) = setup();
    let consumer = consumer.fifo(sqs_once::policy::FifoFailure::ReturnBatch);
    let gate = Arc::new(Notify::new());
    database.begins([Turn::Do, Turn::Hold(Arc::clone(&gate))]);
    let batch = event([
        crate::support::grouped("g", "bad"),
        crate::support::grouped("h", "b"),
    ]);
    let (failed, ()) = tokio::join!(bench.invoke(&consumer, batch), async {
        sleep(SECOND).await;
        gate.notify_one();
    });
    assert_eq!(failed, ["m-0", "m-1"]);
    assert_eq!(*seen.lock().unwrap(), ["bad"]);
    assert_eq!(database.open(), 0);
    assert_eq!(bench.store.item("b"), None);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_to_be_completed_opens_no_transaction() {
    let (bench, database, consumer, _) = setup();
    let consumer = consumer.cache(Cache::new(10));
    bench.invoke(&consumer, event([order("a")])).await;
    bench.store.take_calls();
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
    assert_eq!(bench.store.take_calls(), []);

    // An unconfirmed commit is not cached.
    database.commits([Turn::LoseAnswer]);
    bench.invoke(&consumer, event([order("b")])).await;
    bench.store.take_calls();
    for calls in [&[("begin", 1)][..], &[]] {
        assert_eq!(bench.invoke(&consumer, event([order("b")])).await, [""; 0]);
        assert_eq!(bench.store.take_calls(), calls);
    }
    database.commits([Turn::Fail(StoreErrorKind::Other)]);
    bench.invoke(&consumer, event([order("c")])).await;
    assert_eq!(bench.invoke(&consumer, event([order("c")])).await, [""; 0]);
    assert_eq!(database.effects(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_the_cache_knows_is_asked_for_again_when_its_expiry_is_over_however_often_it_comes()
 {
    let (bench, _, consumer, _) = setup();
    let consumer = consumer.cache(Cache::new(10).expiring_after(SECOND * 60));
    bench.invoke(&consumer, event([order("a")])).await;
    bench.store.take_calls();
    for calls in [&[][..], &[("begin", 1)]] {
        bench.clock.advance(SECOND * 40);
        assert_eq!(bench.invoke(&consumer, event([order("a")])).await, [""; 0]);
        assert_eq!(bench.store.take_calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_get_what_was_recorded_once_it_is_committed() {
    let (bench, database, consumer, _) = setup();
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let (told, database) = (Arc::clone(&told), database.clone());
        move |end: RecordEnd| {
            let recorded: Option<String> = end.recorded().unwrap();
            let effects = database.effects().len();
            told.lock().unwrap().push((name, recorded, effects));
            std::future::ready(Ok(()))
        }
    };
    let consumer = consumer
        .on_success(note("success"))
        .on_duplicate(note("duplicate"))
        .on_failure(note("failure"));
    database.commits([Turn::Fail(StoreErrorKind::Other)]);
    for _ in 0..3 {
        bench.invoke(&consumer, event([order("a")])).await;
    }
    let receipt = Some("receipt of a".to_owned());
    assert_eq!(
        *told.lock().unwrap(),
        [
            ("failure", None, 0),
            ("success", receipt.clone(), 1),
            ("duplicate", receipt, 1)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_handlers_fence_is_that_of_its_claim() {
    let bench = Bench::new();
    let database = Database::beside(&bench.store);
    let fences = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&fences);
    let handler = move |_: Order, _: Ledger, attempt: Attempt| {
        noted.lock().unwrap().push(attempt.fence());
        async {}
    };
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(handler);
    let consumer = bench.consumer(consumer).store(database);
    bench.invoke(&consumer, event([order("a")])).await;
    let item = bench.store.item("a").unwrap();
    assert_eq!(fences.lock().unwrap().last(), item.fence.as_ref());

    // A later claim's fence is larger than the earlier one's, whatever the clock shows.
    let large = Some(Fence::from_stored(u64::MAX - 7));
    let lapsed = Some(Timestamp::default());
    bench.store.inner.put({
        let mut item = item;
        item.fence = large;
        item.status = Status::InProgress;
        item.lease_until = lapsed;
        item
    });
    bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(
        fences.lock().unwrap().last(),
        large.map(Fence::next).as_ref()
    );
}
