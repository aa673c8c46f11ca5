//! The cache of completed keys: a cached duplicate needs no request, and the cache answers nothing else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::process::this_program;
use crate::support::{Bench, Order, Seen, TestStore, body, event, noting, order, outcomes};
use serde_json::json;
use sqs_once::key::Fingerprint;
use sqs_once::policy::{Cache, Mode, PayloadMismatch};
use sqs_once::store::{Owner, Status, StoreErrorKind};
use sqs_once::testing::TestSettings;
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Consumer, Recorded, consumer};
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);

fn cached(bench: &Bench) -> (Consumer, Seen) {
    let (consumer, seen) = noting(bench);
    let cache = Cache::new(100).expiring_after(MINUTE);
    (consumer.cache(cache).retention(60 * MINUTE), seen)
}

/// Handles orders, none of which may fail.
async fn handle<const N: usize>(bench: &Bench, consumer: &Consumer, ids: [&str; N]) {
    let failed = bench.invoke(consumer, event(ids.map(order))).await;
    assert_eq!(failed, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_completed_here_costs_no_further_request() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    handle(&bench, &consumer, ["a", "b"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 2), ("settle", 2)]);
    bench.outcomes();

    handle(&bench, &consumer, ["a", "b"]).await;
    assert_eq!(bench.store.take_calls(), []);
    let duplicates = outcomes([("m-0", "duplicate"), ("m-1", "duplicate")]);
    assert_eq!(bench.outcomes(), duplicates);
    assert_eq!(*seen.lock().unwrap(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_that_the_store_told_of_is_told_from_then_on() {
    let bench = Bench::new();
    handle(&bench, &noting(&bench).0, ["a"]).await;
    let (consumer, seen) = cached(&bench);
    bench.store.take_calls();
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
    assert_eq!(*seen.lock().unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_not_known_travel_together_and_every_record_gets_its_own_answer() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    handle(&bench, &consumer, ["b", "d"]).await;
    bench.store.take_calls();
    bench.outcomes();
    handle(&bench, &consumer, ["a", "b", "c", "d", "e"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 3), ("settle", 3)]);
    let expected = outcomes([
        ("m-0", "processed"),
        ("m-1", "duplicate"),
        ("m-2", "processed"),
        ("m-3", "duplicate"),
        ("m-4", "processed"),
    ]);
    assert_eq!(bench.outcomes(), expected);
    assert_eq!(*seen.lock().unwrap(), ["b", "d", "a", "c", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_is_asked_of_the_store_every_time() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    handle(&bench, &consumer, ["a"]).await;
    let completed = bench.store.item("a").unwrap();
    let id = sqs_once::BusinessKey::new("b").unwrap();
    let id = sqs_once::key::Namespace::new("test").unwrap().item_id(&id);
    bench.store.inner.put({
        let mut item = completed.clone();
        item.id = id.clone();
        item.status = Status::InProgress;
        item.owner = Some(Owner::from_bits(7));
        item.lease_until = Some(bench.clock.now() + MINUTE);
        item
    });
    bench.store.take_calls();
    for _ in 0..2 {
        assert_eq!(bench.invoke(&consumer, event([order("b")])).await, ["m-0"]);
        assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    }
    // The consumer sees the other worker's completion at once.
    bench.store.inner.put({
        let mut item = completed;
        item.id = id;
        item
    });
    handle(&bench, &consumer, ["b"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_never_remembered() {
    let bench = Bench::new();
    let attempts = Arc::new(Mutex::new(0));
    let failing = {
        let attempts = Arc::clone(&attempts);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .cache(Cache::new(100))
            .handler(move |_: Order| {
                let mut attempts = attempts.lock().unwrap();
                *attempts += 1;
                let fails = *attempts < 3;
                async move { if fails { Err("no luck") } else { Ok(()) } }
            })
    };
    let consumer = bench.consumer(failing);
    for _ in 0..2 {
        assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    }
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(*attempts.lock().unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_was_not_confirmed_is_not_remembered() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    bench.store.fail("settle", StoreErrorKind::Other, 1);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    sleep(bench.timeout + Duration::from_secs(4)).await;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(*seen.lock().unwrap(), ["a", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_worker_completed_meanwhile_is_remembered_as_that_worker_left_it() {
    let bench = Bench::new();
    let store = bench.store.clone();
    let overtaken = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .cache(Cache::new(100))
        .payload_mismatch(PayloadMismatch::Reject)
        .handler(move |_: Order| {
            let mine = store.item("a").unwrap();
            store.inner.put({
                let mut item = mine;
                item.status = Status::Completed;
                item.owner = Some(Owner::from_bits(7));
                item.fingerprint = Some(Fingerprint::of_body(r#"{"id": "a", "total": 2}"#));
                item
            });
            async {}
        });
    let consumer = bench.consumer(overtaken);
    handle(&bench, &consumer, ["a"]).await;
    bench.store.take_calls();
    let theirs = event([body(r#"{"id": "a", "total": 2}"#)]);
    assert_eq!(bench.invoke(&consumer, theirs).await, [""; 0]);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn another_payload_is_noticed_from_the_cache_also_in_a_nested_field() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    let consumer = consumer.payload_mismatch(PayloadMismatch::Reject);
    let with_city = |city: &str| {
        let order = json!({ "id": "a", "to": { "lines": [{ "city": city }], "zip": "1" } });
        event([body(&order.to_string())])
    };
    let same_but_reordered = r#"{"to": {"zip": "1", "lines": [{"city": "Bonn"}]}, "id": "a"}"#;
    assert_eq!(bench.invoke(&consumer, with_city("Bonn")).await, [""; 0]);
    bench.store.take_calls();
    assert_eq!(bench.invoke(&consumer, with_city("Rome")).await, ["m-0"]);
    let reordered = event([body(same_but_reordered)]);
    assert_eq!(bench.invoke(&consumer, reordered).await, [""; 0]);
    assert_eq!(bench.store.take_calls(), []);
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_mismatch_that_the_store_told_of_is_told_from_the_cache_too() {
    let bench = Bench::new();
    handle(&bench, &noting(&bench).0, ["a"]).await;
    let (consumer, _) = cached(&bench);
    let consumer = consumer.payload_mismatch(PayloadMismatch::Reject);
    let other = || event([body(r#"{"id": "a", "total": 2}"#)]);
    assert_eq!(bench.invoke(&consumer, other()).await, ["m-0"]);
    bench.store.take_calls();
    assert_eq!(bench.invoke(&consumer, other()).await, ["m-0"]);
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn the_store_is_asked_again_after_the_caches_expiry() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    handle(&bench, &consumer, ["a"]).await;
    bench.store.take_calls();
    sleep(MINUTE - Duration::from_millis(1)).await;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
    // A lookup does not extend an entry's time.
    sleep(Duration::from_millis(1)).await;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_remembered_for_five_minutes_by_default() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.cache(Cache::new(100));
    handle(&bench, &consumer, ["a"]).await;
    bench.store.take_calls();
    sleep(5 * MINUTE - Duration::from_millis(1)).await;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
    sleep(Duration::from_millis(1)).await;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_runs_again_after_its_own_expiry_whatever_the_cache_says() {
    for mode in [Mode::ClaimFirst, Mode::RecordAfter] {
        let bench = Bench::new();
        let (consumer, seen) = cached(&bench);
        let retention = Duration::from_secs(5);
        let consumer = consumer.retention(retention).mode(mode);
        handle(&bench, &consumer, ["a"]).await;
        sleep(retention).await;
        handle(&bench, &consumer, ["a"]).await;
        assert_eq!(*seen.lock().unwrap(), ["a"]);
        // A key is recognised for the whole second in which it expires.
        sleep(Duration::from_secs(1)).await;
        bench.store.take_calls();
        handle(&bench, &consumer, ["a"]).await;
        assert_eq!(*seen.lock().unwrap(), ["a", "a"]);
        let asked: &[_] = match mode {
            // The item refuses the first claim, although it is free.
            Mode::ClaimFirst => &[("claim", 1), ("claim", 1), ("settle", 1)],
            _ => &[("read", 1), ("settle", 1)],
        };
        assert_eq!(bench.store.take_calls(), asked);
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
    let bench = Bench::new();
    let start = bench.clock.now();
    let clock = Adjusted(Arc::new(Mutex::new(start + Duration::from_secs(1))));
    let consumer = cached(&bench).0.clock(clock.clone());
    handle(&bench, &consumer, ["a"]).await;
    bench.store.take_calls();
    *clock.0.lock().unwrap() = start;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
}

#[tokio::test(start_paused = true)]
async fn where_no_claim_is_made_a_known_key_is_not_even_read() {
    let bench = Bench::new();
    let consumer = cached(&bench).0.mode(Mode::RecordAfter);
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), [("read", 1), ("settle", 1)]);
    handle(&bench, &consumer, ["a", "b"]).await;
    assert_eq!(bench.store.take_calls(), [("read", 1), ("settle", 1)]);
    handle(&bench, &consumer, ["a", "b"]).await;
    assert_eq!(bench.store.take_calls(), []);

    let another = cached(&bench).0.mode(Mode::RecordAfter);
    handle(&bench, &another, ["a"]).await;
    assert_eq!(bench.store.take_calls(), [("read", 1)]);
    handle(&bench, &another, ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn the_key_that_was_not_needed_for_longest_makes_room() {
    let bench = Bench::new();
    let consumer = cached(&bench).0.cache(Cache::new(2));
    handle(&bench, &consumer, ["a"]).await;
    handle(&bench, &consumer, ["b"]).await;
    handle(&bench, &consumer, ["a"]).await;
    handle(&bench, &consumer, ["c"]).await;
    bench.store.take_calls();
    handle(&bench, &consumer, ["a"]).await;
    handle(&bench, &consumer, ["c"]).await;
    assert_eq!(bench.store.take_calls(), []);
    handle(&bench, &consumer, ["b"]).await;
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_told_from_the_cache_brings_what_was_recorded() {
    let bench = Bench::new();
    let told = Seen::default();
    let recording = {
        let told = Arc::clone(&told);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .cache(Cache::new(100))
            .on_duplicate(move |end| {
                let receipt: Option<String> = end.recorded().unwrap();
                told.lock().unwrap().extend(receipt);
                async { Ok(()) }
            })
            .handler(async |order: Order| Recorded(format!("r-{}", order.id)))
    };
    let consumer = bench.consumer(recording);
    handle(&bench, &consumer, ["a"]).await;
    bench.store.take_calls();
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
    assert_eq!(*told.lock().unwrap(), ["r-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_with_much_recorded_data_is_not_remembered() {
    let bench = Bench::new();
    let recording = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .cache(Cache::new(100))
        .handler(async |order: Order| Recorded("x".repeat(usize::try_from(order.total).unwrap())));
    let consumer = bench.consumer(recording);
    // With two quotes, the first value has 4096 bytes, and the second has one more.
    for (total, calls) in [(4094, vec![]), (4095, vec![("claim", 1)])] {
        let event = || {
            let order = json!({ "id": total.to_string(), "total": total });
            event([body(&order.to_string())])
        };
        bench.invoke(&consumer, event()).await;
        bench.store.take_calls();
        bench.invoke(&consumer, event()).await;
        assert_eq!(bench.store.take_calls(), calls, "{total}");
    }
}

#[tokio::test(start_paused = true)]
async fn clones_share_what_is_known_and_consumers_of_one_cache_setting_do_not() {
    let bench = Bench::new();
    let cache = Cache::new(100);
    let (one, seen) = noting(&bench);
    let one = one.cache(cache);
    let (two, seen_by_two) = noting(&bench);
    let other_table = TestStore::default();
    let two = two.cache(cache).store(other_table.clone());

    handle(&bench, &one, ["a"]).await;
    bench.store.take_calls();
    handle(&bench, &one.clone(), ["a"]).await;
    assert_eq!(bench.store.take_calls(), []);
    handle(&bench, &two, ["a"]).await;
    assert_eq!(other_table.take_calls(), [("claim", 1), ("settle", 1)]);
    assert_eq!(*seen.lock().unwrap(), ["a"]);
    assert_eq!(*seen_by_two.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn concurrent_invocations_share_it_and_do_not_mix() {
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    let invocations = (0..20).map(|round| {
        let ids = (0..10).map(move |at| order(&format!("{}-{at}", round % 10)));
        bench.invoke(&consumer, event(ids))
    });
    futures_util::future::join_all(invocations).await;
    bench.outcomes();
    bench.store.take_calls();
    for round in 0..10 {
        let ids = (0..10).map(|at| order(&format!("{round}-{at}")));
        assert_eq!(bench.invoke(&consumer, event(ids)).await, [""; 0]);
    }
    let duplicates = bench.outcomes();
    assert!(duplicates.iter().all(|(_, outcome)| outcome == "duplicate"));
    assert_eq!(bench.store.take_calls(), []);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    let mut once: Vec<_> = (0..100)
        .map(|at| format!("{}-{}", at / 10, at % 10))
        .collect();
    once.sort();
    assert_eq!(seen, once);
}

/// The switch is an environment variable, so the test runs another process.
#[test]
fn the_off_switch_bypasses_the_cache_too() {
    let this = "in_a_process_with_the_off_switch_every_delivery_runs";
    let output = this_program(module_path!(), this)
        .env("SQS_ONCE_DISABLED", "true")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("1 passed"), "{output}");
}

#[tokio::test(start_paused = true)]
async fn in_a_process_with_the_off_switch_every_delivery_runs() {
    let expected: &[&str] = match std::env::var_os("SQS_ONCE_DISABLED") {
        Some(_) => &["a", "a"],
        None => &["a"],
    };
    let bench = Bench::new();
    let (consumer, seen) = cached(&bench);
    handle(&bench, &consumer, ["a"]).await;
    handle(&bench, &consumer, ["a"]).await;
    assert_eq!(*seen.lock().unwrap(), expected);
}
