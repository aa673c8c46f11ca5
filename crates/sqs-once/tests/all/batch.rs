//! The outcome of each record in a batch.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::support::{
    AtOnce, Bench, Counted, Notes, Order, SECOND, assert_contains, body, ends, handling, held,
    json_body, keys, noting, order, set, several, told, values, with,
};
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::{Handler, testing};
use tokio::time::sleep;

const DAY: Duration = Duration::from_hours(24);

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_elsewhere_is_not_acknowledged_and_not_run() {
    let (consumer, begun, go_on) = held();
    let bench = Bench::new().on(consumer);
    let meanwhile = async {
        begun.notified().await;
        assert_eq!(bench.store.item("a").unwrap().status, Status::InProgress);
        assert_eq!(bench.run(["a", "a"]).await, ["m-0", "m-1"]);
        assert_eq!(bench.codes(), ["in_progress: in-progress"; 2].join(", "));
        go_on.notify_one();
    };
    let (failed, ()) = tokio::join!(bench.run(["a"]), meanwhile);
    assert_eq!(failed, [""; 0]);
    assert_eq!(bench.outcomes(), "processed");
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);
    let requests = [("claim", 1), ("claim", 1), ("settle", 1)];
    assert_eq!(bench.store.take_calls(), requests);
}

#[tokio::test(start_paused = true)]
async fn exactly_the_failed_records_are_reported_in_batch_order() {
    let (bench, seen) = noting();
    let ids = ["panic-1", "a", "bad-1", "b", "hopeless-1", "c"];
    assert_eq!(bench.run(ids).await, ["m-0", "m-2", "m-4"]);
    assert_eq!(seen.take().len(), 6);
    // Failures are released together with the completions.
    assert_eq!(bench.store.take_calls(), [("claim", 6), ("settle", 6)]);
    let expected = [
        ("failed", "panicked: what a surprise"),
        ("processed", ""),
        ("failed", "no luck"),
        ("processed", ""),
        ("terminal", "no use"),
        ("processed", ""),
    ];
    assert_eq!(told(&ends(bench.lines())), expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_delivered_again_has_no_effect_and_is_acknowledged() {
    let (bench, seen) = noting();
    bench.run(["a"]).await;
    let sent_again = with(order("a"), json!({ "messageId": "another" }));
    for again in [order("a"), sent_again] {
        assert_eq!(bench.run([again]).await, [""; 0]);
    }
    assert_eq!(seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_record_runs_again_at_once_because_its_claim_was_released() {
    let (bench, seen) = noting();
    // The batch ends when they are answered.
    bench.store.settlements_take(|_| SECOND / 100);
    let ids = ["bad-1", "panic-1", "hopeless-1"];
    for _ in 0..3 {
        assert_eq!(bench.run(ids).await.len(), 3);
        assert!(ids.iter().all(|id| bench.store.is_released(id)));
    }
    assert_eq!(seen.take().len(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_completed_key_is_a_duplicate_for_28_days_by_default_and_then_runs_though_its_item_stands()
 {
    for retention in [None, Some(60 * SECOND)] {
        let (bench, seen) = noting();
        let bench = bench.with(|it| set(it, retention, Handler::retention));
        bench.run(["a"]).await;
        sleep(retention.unwrap_or(28 * DAY) - SECOND).await;
        bench.run(["a"]).await;
        assert_eq!(seen.take(), ["a"]);
        // The item stores whole seconds.
        sleep(3 * SECOND).await;
        let item = bench.store.item("a").unwrap();
        bench.run(["a"]).await;
        assert_eq!(seen.take(), ["a"], "{retention:?}");
        bench.store.inner.remove(&item.id);
        bench.run(["a"]).await;
        assert_eq!(seen.take(), ["a"], "{retention:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_twice_in_a_batch_runs_once_and_costs_no_request() {
    let (bench, seen) = noting();
    assert_eq!(bench.run(["a", "b", "a", "a"]).await, [""; 0]);
    assert_eq!(seen.take(), ["a", "b"]);
    assert_eq!(bench.store.take_calls(), [("claim", 2), ("settle", 2)]);
    assert_eq!(bench.outcomes(), "processed processed duplicate duplicate");
}

/// More records than the consumer takes up before the last one.
const MANY: usize = 300;

#[tokio::test(start_paused = true)]
async fn a_duplicate_in_a_batch_ends_as_the_record_it_repeats_did_however_far_behind() {
    for id in ["a", "bad-1", "hopeless-1", "panic-1"] {
        let failed: &[&str] = if id == "a" { &[] } else { &["m-0", "m-299"] };
        let (bench, seen) = noting();
        let others = (1..MANY - 1).map(|other| format!("o-{other}"));
        let ids = std::iter::once(id.to_owned()).chain(others);
        assert_eq!(bench.run(ids.chain([id.to_owned()])).await, failed);
        let lines = bench.lines();
        let copy = lines.iter().find(|line| line["message_id"] == "m-299");
        let said = ["code", "reason"].map(|field| copy.unwrap().get(field).map(String::as_str));
        let because = "the message with the same key in this batch failed";
        let because = ["earlier-message", because].map(|it| (id != "a").then_some(it));
        assert_eq!(said, because);
        assert_eq!(seen.take().iter().filter(|one| *one == id).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_a_completed_key_is_a_warning_or_a_failure_by_policy() {
    let (bench, seen) = noting();
    let bench = bench.with(|it| it.payload_mismatch(PayloadMismatch::Acknowledge));
    let paid =
        |cents: u64| json_body(&json!({ "id": "a", "card": { "limit": { "cents": cents } } }));
    bench.run([paid(1), paid(2)]).await;
    bench.run([paid(3)]).await;
    assert_eq!(seen.take(), ["a"]);
    let mut lines = bench.lines();
    let warned = lines.extract_if(.., |line| line["level"] == "WARN");
    let warned: Vec<_> = warned.collect();
    assert_eq!((warned.len(), lines.len()), (2, 1));
    for line in warned {
        assert_eq!(line["outcome"], "duplicate");
        assert!(line["reason"].contains("two different messages share it"));
    }

    let strict = bench.with(|it| it.payload_mismatch(PayloadMismatch::Retry));
    assert_eq!(strict.run([paid(1), paid(3)]).await, ["m-1"]);
    let reason = &strict.lines()[1]["reason"];
    assert_contains!(reason, "two different messages share it");
    let unordered = r#"{ "card": { "limit": { "cents": 1 } }, "id": "a" }"#;
    assert_eq!(strict.run([body(unordered)]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_at_once_than_allowed_and_each_fails_for_itself() {
    let at_once = AtOnce::default();
    let counted = at_once.clone();
    let bench = handling(move |order: Order| {
        counted.during(async move {
            sleep(SECOND / 50).await;
            order.obey().await
        })
    });
    let bench = bench.with_consumer(|it| it.concurrency(7));
    let ids = (0..200).map(|at| match at {
        3 | 7 => format!("bad-{at}"),
        _ => at.to_string(),
    });
    assert_eq!(bench.run(ids).await, ["m-3", "m-7"]);
    assert_eq!(at_once.most(), 7);
}

/// The consumer extracts the key before it calls the handler.
#[tokio::test(start_paused = true)]
async fn a_handler_that_changes_its_payload_does_not_change_the_key() {
    let bench = handling(async |mut order: Order| order.id.push_str("nother"));
    assert_eq!(bench.run(["a"]).await, [""; 0]);
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);
    assert!(bench.store.item("another").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_deliveries_of_many_keys_run_each_key_once() {
    let (effects, notes) = Notes::pair();
    let handler = values().call(notes.of(|order: Value| order["id"].to_string()));
    let bench = Arc::new(testing::Bench::new(handler));
    let batches = (0..8).map(|batch| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            let ids = (0..50).map(|at| ((at * 7 + batch * 13) % 60).to_string());
            bench.run(several(ids)).await;
        })
    });
    for batch in batches.collect::<Vec<_>>() {
        batch.await.unwrap();
    }
    let effects = effects.take();
    assert_eq!(effects.len(), 60);
    assert_eq!(effects.iter().collect::<HashSet<_>>().len(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_its_key_ends_as_the_other_worker_does_and_waits_no_longer_than_allowed()
 {
    // After ten seconds, the other worker has completed the key, has released it, or claims it again.
    for (wait, then, lease, outcome) in [
        (20, Status::Completed, 0, "duplicate"),
        (20, Status::InProgress, 0, "processed"),
        (20, Status::InProgress, 60, "in_progress"),
        (3, Status::Completed, 0, "in_progress"),
    ] {
        let (bench, seen) = noting();
        let bench = bench.with(|it| it.in_progress_wait(wait * SECOND));
        bench.foreign("a", Status::InProgress, 13 * SECOND);
        let meanwhile = async {
            sleep(SECOND).await;
            assert_eq!(seen.take(), ["b"], "others do not wait");
            sleep(9 * SECOND).await;
            bench.foreign("a", then, lease * SECOND);
        };
        tokio::join!(bench.run(["a", "b"]), meanwhile);
        assert_eq!(bench.outcomes(), format!("{outcome} processed"));
        assert_eq!(seen.len(), usize::from(outcome == "processed"));
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_key_ends_in_time_and_with_pauses_though_the_store_fails() {
    let bench = noting().0.with(|it| it.in_progress_wait(5 * SECOND));
    bench.foreign("a", Status::InProgress, 30 * SECOND);
    let fail = async {
        sleep(4 * SECOND).await;
        bench.store.always_fails("claim", StoreErrorKind::Throttled);
    };
    let (failed, ()) = tokio::join!(bench.run(["a"]), fail);
    assert_eq!(failed, ["m-0"]);
    assert_eq!(bench.outcomes(), "failed");
    assert!(bench.elapsed() <= 5 * SECOND);
    assert!(bench.store.take_calls().len() < 20);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_key_ends_with_the_deadline_and_asks_for_no_claim_after_it() {
    let (bench, seen) = noting();
    let bench = bench.with(|it| it.in_progress_wait(Duration::MAX));
    bench.foreign("a", Status::InProgress, 3600 * SECOND);
    let just_before = async {
        sleep(29 * SECOND - Duration::from_millis(1)).await;
        bench.store.take_calls().len()
    };
    let (failed, requests) = tokio::join!(bench.run(["a"]), just_before);
    assert_eq!(failed, ["m-0"]);
    assert_eq!(bench.outcomes(), "in_progress");
    assert_eq!(bench.elapsed(), bench.timeout - SECOND);
    assert!(requests > 10);
    assert_eq!(bench.store.take_calls(), []);
    assert_eq!(seen.take(), [""; 0]);
}

/// The decoded payloads in memory.
static ALIVE: LazyLock<AtOnce> = LazyLock::new(AtOnce::default);

#[derive(Deserialize)]
struct Payload {
    id: String,
    #[serde(skip, default = "count")]
    _counted: Counted,
}

fn count() -> Counted {
    ALIVE.enter()
}

#[tokio::test(start_paused = true)]
async fn payloads_of_a_large_batch_are_decoded_as_their_turn_comes() {
    let counted = Handler::json::<Payload>()
        .key(|order: &Payload| order.id.clone())
        .call(async |_order: Payload| sleep(SECOND / 1000).await);
    let bench = Bench::new()
        .on(counted)
        .with_consumer(|it| it.concurrency(16));
    let batch = (0..10_000).map(|at| format!("o-{at}"));
    assert_eq!(bench.run(batch).await, [""; 0]);
    // The consumer claims up to two hundred records ahead of the handlers.
    let most = ALIVE.most();
    assert!((17..=200 + 16).contains(&most), "{most} payloads at once");
    assert_eq!(ALIVE.now(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_keys_are_claimed_in_full_requests_as_handlers_end_one_by_one() {
    for (count, requests) in [(100, 4), (200, 8), (1000, 40), (2000, 80)] {
        let (bench, _) = noting();
        assert_eq!(bench.run(keys(count)).await, [""; 0]);
        let calls = bench.store.take_calls().into_iter();
        let claims: Vec<_> = calls.filter(|(call, _)| *call == "claim").collect();
        assert_eq!(claims, vec![("claim", 25); requests]);
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_slow_key_keep_no_other_record_from_starting() {
    let (bench, seen) = noting();
    let copies = std::iter::repeat_n("brief-1".to_owned(), 300);
    assert_eq!(bench.run(copies.chain(keys(300))).await, [""; 0]);
    assert_eq!(seen.len(), 301);
    assert_eq!(bench.elapsed(), SECOND);
}
