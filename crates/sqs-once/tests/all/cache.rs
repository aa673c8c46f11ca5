//! The cache of completed keys: a cached duplicate needs no request, and the cache answers nothing else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::process::has;
use crate::support::{
    Bench, Mode, Notes, Order, SECOND, Seen, TestStore, Tested, body, in_group, json_body, noting,
    noting_batches, noting_in, order, orders, with,
};
use serde_json::{Value, json};
use sqs_once::consumer::Cache;
use sqs_once::extract::RecordEnd;
use sqs_once::key::Fingerprint;
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::{Owner, Status, StoreErrorKind, Timestamp};
use sqs_once::unstable::{Clock, Simulated};
use sqs_once::{Completion, Handler};
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);

fn cached() -> (Tested, Seen) {
    cached_with(Mode::ClaimFirst, |it| it)
}

fn cached_with(mode: Mode, settings: impl FnOnce(Handler) -> Handler) -> (Tested, Seen) {
    let (bench, seen) = noting_in(mode);
    let cache = Cache::new(100).expiring_after(MINUTE);
    let bench = bench
        .with(|it| settings(it.retention(60 * MINUTE)))
        .with_consumer(|it| it.cache(cache));
    (bench, seen)
}

/// The record of a message that SQS received in this second of the test.
fn sent(mut record: Value, second: u64) -> Value {
    let sent_at = (1_790_000_000_000 + second * 1000).to_string();
    record["attributes"]["SentTimestamp"] = json!(sent_at);
    record
}

/// Handles orders, none of which may fail. Returns the requests.
async fn handle<const N: usize>(bench: &Tested, ids: [&str; N]) -> Vec<(&'static str, usize)> {
    bench.store.take_calls();
    assert_eq!(bench.run(ids).await, [""; 0]);
    bench.store.take_calls()
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_or_a_mismatch_that_the_store_told_of_is_told_from_then_on() {
    let (bench, seen) = cached_with(Mode::ClaimFirst, |it| {
        it.payload_mismatch(PayloadMismatch::Retry)
    });
    let (other, _) = bench.noting();
    let b = |total| body(&format!(r#"{{"id": "b", "total": {total}}}"#));
    bench.deliver(&other, [order("a"), b(1)]).await;
    bench.store.take_calls();
    for requests in [vec![("claim", 2)], vec![]] {
        assert_eq!(bench.run([order("a"), b(2)]).await, ["m-1"]);
        assert_eq!(bench.store.take_calls(), requests);
    }
    assert_eq!(bench.run([b(1)]).await, [""; 0]);
    assert_eq!(bench.store.take_calls(), []);
    assert_eq!(seen.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_not_known_travel_together_and_every_record_gets_its_own_answer() {
    let (bench, seen) = cached();
    handle(&bench, ["b", "d"]).await;
    bench.outcomes();
    let requests = handle(&bench, ["a", "b", "c", "d", "e"]).await;
    assert_eq!(requests, [("claim", 3), ("settle", 3)]);
    let outcomes = "processed duplicate processed duplicate processed";
    assert_eq!(bench.outcomes(), outcomes);
    assert_eq!(seen.take(), ["b", "d", "a", "c", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_is_asked_of_the_store_every_time() {
    let (bench, seen) = cached();
    bench.foreign("b", Status::InProgress, MINUTE);
    for _ in 0..2 {
        assert_eq!(bench.run(["b"]).await, ["m-0"]);
        assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    }
    // The consumer sees the other worker's completion at once.
    bench.foreign("b", Status::Completed, MINUTE);
    assert_eq!(handle(&bench, ["b"]).await, [("claim", 1)]);
    assert_eq!(seen.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_not_confirmed_is_not_remembered() {
    let (bench, seen) = cached();
    bench.store.fail("settle", StoreErrorKind::Other, 1);
    assert_eq!(bench.run(["a"]).await, ["m-0"]);
    sleep(bench.timeout + 4 * SECOND).await;
    handle(&bench, ["a"]).await;
    assert_eq!(seen.take(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_worker_completed_meanwhile_is_remembered_as_that_worker_left_it() {
    let [ours, theirs] = [1, 2].map(|total| format!(r#"{{"id": "a", "total": {total}}}"#));
    let completed = theirs.clone();
    let bench = Bench::new();
    let store = bench.store.clone();
    let overtaken = orders().call(move |_: Order| {
        store.change("a", |item| {
            item.status = Status::Completed;
            item.owner = Some(Owner::from_bits(7));
            item.fingerprint = Some(Fingerprint::from_body(&completed));
        });
        async {}
    });
    let bench = bench
        .on(overtaken.payload_mismatch(PayloadMismatch::Retry))
        .with_consumer(|it| it.cache(Cache::new(100)));
    bench.run([body(&ours)]).await;
    bench.store.take_calls();
    assert_eq!(bench.run([body(&theirs)]).await, [""; 0]);
    assert_eq!(bench.run([body(&ours)]).await, ["m-0"]);
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn the_store_is_asked_again_after_the_caches_expiry_by_default_after_five_minutes() {
    let cache = Cache::new(100).expiring_after(MINUTE);
    for (cache, expiry) in [(cache, MINUTE), (Cache::new(100), 5 * MINUTE)] {
        let (bench, seen) = noting();
        let bench = bench.with_consumer(|it| it.cache(cache));
        handle(&bench, ["a"]).await;
        sleep(expiry - SECOND / 1000).await;
        assert_eq!(handle(&bench, ["a"]).await, []);
        // A lookup does not extend an entry's time.
        sleep(SECOND / 1000).await;
        assert_eq!(handle(&bench, ["a"]).await, [("claim", 1)]);
        assert_eq!(seen.take(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_runs_again_after_its_own_expiry_whatever_the_cache_says() {
    // The item refuses the first claim, although it is free.
    let claiming = vec![("claim", 1), ("claim", 1), ("settle", 1)];
    let recording = vec![("read", 1), ("settle", 1)];
    for (mode, requests) in [(Mode::ClaimFirst, claiming), (Mode::RecordAfter, recording)] {
        let (bench, seen) = cached_with(mode, |it| it.retention(5 * SECOND));
        handle(&bench, ["a"]).await;
        sleep(5 * SECOND).await;
        handle(&bench, ["a"]).await;
        assert_eq!(seen.take(), ["a"]);
        // A key is recognised for the whole second in which it expires.
        sleep(SECOND).await;
        assert_eq!(handle(&bench, ["a"]).await, requests);
        assert_eq!(seen.take(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_prolongs_nothing() {
    #[derive(Clone)]
    struct Adjusted(Arc<Mutex<Timestamp>>);
    impl Clock for Adjusted {
        fn now(&self) -> Timestamp {
            *self.0.lock().unwrap()
        }
    }
    let (bench, _) = cached();
    let start = bench.clock.now();
    let clock = Adjusted(Arc::new(Mutex::new(start + SECOND)));
    let bench = bench.with_consumer(|it| it.with_clock(clock.clone()));
    handle(&bench, ["a"]).await;
    *clock.0.lock().unwrap() = start;
    assert_eq!(handle(&bench, ["a"]).await, [("claim", 1)]);
}

#[tokio::test(start_paused = true)]
async fn where_no_claim_is_made_a_known_key_is_not_even_read() {
    let (bench, _) = cached_with(Mode::RecordAfter, |it| it);
    let requests = [("read", 1), ("settle", 1)];
    assert_eq!(handle(&bench, ["a"]).await, requests);
    assert_eq!(handle(&bench, ["a", "b"]).await, requests);
    assert_eq!(handle(&bench, ["a", "b"]).await, []);

    // A change of the settings makes a new cache.
    let another = bench.with_consumer(|it| it.cache(Cache::new(10)));
    assert_eq!(handle(&another, ["a"]).await, [("read", 1)]);
    assert_eq!(handle(&another, ["a"]).await, []);
}

#[tokio::test(start_paused = true)]
async fn the_key_that_was_not_needed_for_longest_makes_room() {
    let bench = cached().0.with_consumer(|it| it.cache(Cache::new(2)));
    for id in ["a", "b", "a", "c"] {
        handle(&bench, [id]).await;
    }
    assert_eq!(handle(&bench, ["a", "c"]).await, []);
    assert_eq!(handle(&bench, ["b"]).await, [("claim", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_completions_value_is_remembered_with_its_key_unless_it_is_long() {
    let (lengths, notes) = Notes::pair();
    let recording = orders()
        .call(async |order: Order| Completion("x".repeat(usize::try_from(order.total).unwrap())));
    let length = |end: RecordEnd| end.completion::<String>().unwrap().unwrap().len();
    let bench = Bench::new().on(recording.on_done(notes.of(length)));
    let bench = bench.with_consumer(|it| it.cache(Cache::new(100)));
    // With two quotes, the first value has 4096 bytes, and the second has one more.
    for (total, calls) in [(4094, vec![]), (4095, vec![("claim", 1)])] {
        let order = || json_body(&json!({ "id": total.to_string(), "total": total }));
        bench.run([order()]).await;
        bench.store.take_calls();
        bench.run([order()]).await;
        assert_eq!(bench.store.take_calls(), calls, "{total}");
        assert_eq!(lengths.take(), [total, total]);
    }
}

#[tokio::test(start_paused = true)]
async fn clones_share_what_is_known_and_consumers_of_one_cache_setting_do_not() {
    let cache = Cache::new(100);
    let (one, seen) = noting();
    let one = one.with_consumer(|it| it.cache(cache));
    let (two, seen_by_two) = one.noting();
    let other_table = TestStore::default();
    let two = two.cache(cache).store(other_table.clone());

    handle(&one, ["a"]).await;
    let one = one.with_consumer(|it| it.clone());
    assert_eq!(handle(&one, ["a"]).await, []);
    assert_eq!(one.deliver(&two, ["a"]).await, [""; 0]);
    assert_eq!(other_table.take_calls(), [("claim", 1), ("settle", 1)]);
    assert_eq!([seen.take(), seen_by_two.take()], [["a"]; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_redriven_message_runs_after_its_key_was_forgotten_whatever_the_cache_says() {
    for mode in Mode::BOTH {
        let (bench, seen) = cached_with(mode, |it| it);
        handle(&bench, ["a"]).await;
        // A redelivery is as old as the first delivery, however short its processing was.
        assert_eq!(handle(&bench, ["a"]).await, []);
        bench.forget("a");
        assert_eq!(bench.run([sent(order("a"), 1)]).await, [""; 0]);
        assert_eq!(seen.take(), ["a", "a"]);
        // The cache has seen the new completion, also for the redriven message.
        bench.store.take_calls();
        let both = [sent(order("a"), 1), sent(order("a"), 0)];
        assert_eq!(bench.run(both).await, [""; 0]);
        assert_eq!(bench.store.take_calls(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_redriven_while_an_earlier_invocation_waits_for_the_store_runs() {
    for (mode, late, runs) in [
        (Mode::ClaimFirst, "claim", 1),
        (Mode::ClaimFirst, "settle", 2),
        (Mode::RecordAfter, "read", 1),
        (Mode::RecordAfter, "settle", 2),
    ] {
        let (bench, seen) = cached_with(mode, |it| it);
        if late != "settle" {
            bench.foreign("a", Status::Completed, MINUTE);
        }
        bench.store.late(late);
        let (earlier, redriven) = tokio::join!(bench.run(["a"]), async {
            sleep(SECOND / 2).await;
            bench.forget("a");
            bench.run([sent(order("a"), 1)]).await
        });
        assert_eq!([earlier, redriven].concat(), [""; 0], "{late}");
        assert_eq!(seen.take().len(), runs, "{mode:?} {late}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_redriven_message_behind_an_older_copy_in_its_batch_runs_too() {
    let (bench, seen) = cached();
    handle(&bench, ["a"]).await;
    bench.forget("a");
    // The first has ended when the second is taken up, or its claim was answered.
    let in_order = [0, 1].map(|second| sent(in_group("g", order("a")), second));
    assert_eq!(bench.run(in_order).await, [""; 0]);
    assert_eq!(seen.take(), ["a", "a"]);
    bench.forget("a");
    let others = (0..30).map(|at| sent(order(&format!("other-{at}")), 0));
    let records = std::iter::once(sent(order("a"), 0)).chain(others);
    let records = records.chain([sent(order("a"), 2)]);
    assert_eq!(bench.run(records).await, [""; 0]);
    assert!(seen.take().iter().any(|id| id == "a"));

    let (bench, calls) = noting_batches(Duration::ZERO);
    let bench = bench.with_consumer(|it| it.cache(Cache::new(100)));
    assert_eq!(bench.run(["a"]).await, [""; 0]);
    bench.forget("a");
    let records = [("a", 0), ("a", 2), ("b", 2)].map(|(id, second)| sent(order(id), second));
    assert_eq!(bench.run(records).await, [""; 0]);
    let ids: Vec<_> = calls.take().into_iter().map(|(_, ids)| ids).collect();
    assert_eq!(ids, [vec!["a"], vec!["a", "b"]]);
}

#[tokio::test(start_paused = true)]
async fn only_a_message_that_was_sent_before_the_completion_or_is_known_costs_no_request() {
    let (bench, seen) = cached();
    let mut first = sent(order("a"), 0);
    first["attributes"]["ApproximateFirstReceiveTimestamp"] = json!("1790000009000");
    bench.run([first]).await;
    bench.store.take_calls();
    let undated = with(order("a"), json!({ "attributes": {} }));
    let of_second = |second| sent(order("a"), second);
    for (what, record, requests) in [
        ("of a backlog", of_second(9), vec![]),
        ("of unknown age", undated, vec![("claim", 1)]),
        ("sent later", of_second(10), vec![("claim", 1)]),
        ("known", of_second(10), vec![]),
    ] {
        assert_eq!(bench.run([record]).await, [""; 0]);
        assert_eq!(bench.store.take_calls(), requests, "{what}");
    }
    assert_eq!(seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_off_switch_bypasses_cache_and_store() {
    let is_off = has!(&[("SQS_ONCE_DISABLED", "true")]);
    let (bench, seen) = cached();
    let requests = [handle(&bench, ["a"]).await, handle(&bench, ["a"]).await];
    assert_eq!(seen.take().len(), if is_off { 2 } else { 1 });
    assert_eq!(requests.concat().is_empty(), is_off);
    let log = bench.log.all();
    assert_eq!(log.contains("SQS_ONCE_DISABLED is set"), is_off, "{log}");
}
