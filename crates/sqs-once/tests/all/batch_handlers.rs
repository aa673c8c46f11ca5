//! Batch handlers: one call for all records, one outcome for each.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, body, event, order, outcomes};
use serde_json::json;
use sqs_once::extract::MessageMeta;
use sqs_once::hook::RecordEnd;
use sqs_once::key::ItemId;
use sqs_once::key::MessageAttribute;
use sqs_once::policy::{InProgress, MissingKey, Mode};
use sqs_once::store::Store;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, Status, StoreFuture};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{
    Batch, BatchOutcome, Consumer, HandlerError, IdempotencyToken, MemoryStore, Recorded,
    Remaining, State, consumer,
};
use tokio::time::sleep;

/// The orders in each call.
type Calls = Arc<Mutex<Vec<Vec<String>>>>;

fn ids(orders: &Batch<Order>) -> Vec<String> {
    orders.payloads().map(|order| order.id.clone()).collect()
}

/// Orders named `bad-…` fail, `never-…` are terminal, `unsaid-…` are not reported; the others succeed.
fn say(orders: &Batch<Order>) -> BatchOutcome {
    let mut outcome = orders.outcome();
    for record in orders {
        match record.payload().id.split('-').next() {
            Some("bad") => outcome.failed(record, "no luck"),
            Some("never") => outcome.failed(record, HandlerError::terminal("no hope")),
            Some("unsaid") => {}
            _ => outcome.succeeded(record),
        }
    }
    outcome
}

/// Records its calls, and ends each record as its ID requests.
fn noting(bench: &Bench) -> (Consumer, Calls) {
    let calls = Calls::default();
    let noting = {
        let calls = Arc::clone(&calls);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .batch_handler(move |orders: Batch<Order>| {
                calls.lock().unwrap().push(ids(&orders));
                async move { say(&orders) }
            })
    };
    (bench.consumer(noting), calls)
}

/// A batch handler whose call takes `time`.
fn taking(bench: &Bench, time: Duration) -> Consumer {
    bench.consumer(
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .batch_handler(move |orders: Batch<Order>| async move {
                sleep(time).await;
                orders.all_succeeded()
            }),
    )
}

#[tokio::test(start_paused = true)]
async fn one_call_gets_all_records_in_order_and_they_are_claimed_and_recorded_in_groups() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let ids: Vec<_> = (0..130).map(|at| format!("k{at}")).collect();
    let batch = event(ids.iter().map(|id| order(id)));
    let consumer = consumer.concurrency(1);
    assert!(bench.invoke(&consumer, batch).await.is_empty());
    assert_eq!(*calls.lock().unwrap(), [ids]);
    let requests = bench.store.take_calls();
    let sizes = |call| {
        let requests = requests.iter().filter(move |(name, _)| *name == call);
        requests.map(|(_, entries)| *entries).collect::<Vec<_>>()
    };
    assert_eq!(sizes("claim"), [25, 25, 25, 25, 25, 5]);
    assert_eq!(sizes("settle"), [25, 25, 25, 25, 25, 5]);
}

#[tokio::test(start_paused = true)]
async fn each_record_ends_as_the_handler_says_and_one_it_does_not_mention_has_failed() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let batch = event(["a", "bad-1", "never-1", "unsaid-1", "b"].map(order));
    assert_eq!(
        bench.invoke(&consumer, batch.clone()).await,
        ["m-1", "m-2", "m-3"]
    );
    let lines = bench.log.take("sqs_once::record");
    let reason = |id: &str| {
        let line = lines.iter().find(|line| line["message_id"] == id).unwrap();
        (line["outcome"].as_str(), line.get("reason").cloned())
    };
    assert_eq!(reason("m-0"), ("processed", None));
    assert_eq!(reason("m-1"), ("failed", Some("no luck".to_owned())));
    assert_eq!(reason("m-2"), ("terminal", Some("no hope".to_owned())));
    let unsaid = "the batch handler did not say that it succeeded".to_owned();
    assert_eq!(reason("m-3"), ("failed", Some(unsaid)));

    // Failed keys are free again. The handler does not receive successful records a second time.
    bench.invoke(&consumer, batch).await;
    let again = ["bad-1", "never-1", "unsaid-1"];
    assert_eq!(calls.lock().unwrap()[1], again);
}

#[tokio::test(start_paused = true)]
async fn a_record_tells_all_that_extractors_tell() {
    async fn handler(orders: Batch<Order>) -> Result<BatchOutcome, HandlerError> {
        let record = &orders[1];
        assert_eq!(record.payload().id, "b");
        assert_eq!(record.message().id(), "m-1");
        assert_eq!(record.attempt().number(), 3);
        assert_eq!(record.token(), record.extract::<IdempotencyToken>().await?);
        assert_ne!(record.token(), orders[0].token());
        assert_eq!(
            record.extract::<MessageMeta>().await?.receive_count(),
            Some(3)
        );
        assert_eq!(
            record.extract::<Remaining>().await?.duration(),
            Duration::from_secs(2)
        );
        let mut outcome = orders.outcome();
        for record in orders {
            let key = record.key().item_id().as_str().to_owned();
            outcome.ended(&record, Recorded(key));
            drop(record.into_payload());
        }
        Ok(outcome)
    }
    let bench = Bench::new();
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(handler);
    let consumer = bench.consumer(consumer);
    let consumer = consumer.record_timeout(Duration::from_secs(2));
    let mut third = order("b");
    third["attributes"] = json!({ "ApproximateReceiveCount": "3" });
    let failed = bench.invoke(&consumer, event([order("a"), third])).await;
    assert!(failed.is_empty(), "{}", bench.log.all());
    let item = bench.store.item("b").unwrap();
    let recorded: String = serde_json::from_str(&item.data.unwrap()).unwrap();
    assert!(recorded.starts_with("test#"), "{recorded}");
}

#[tokio::test(start_paused = true)]
async fn the_batchs_own_extractors_are_the_state_and_the_time_that_is_left() {
    async fn handler(
        orders: Batch<Order>,
        State(limit): State<usize>,
        remaining: Remaining,
    ) -> Result<BatchOutcome, HandlerError> {
        assert_eq!(remaining.duration(), Duration::from_secs(29));
        let mut outcome = orders.outcome();
        for record in orders.iter().take(limit) {
            outcome.succeeded(record);
        }
        Ok(outcome)
    }
    let bench = Bench::new();
    let keyed = || consumer::<Order>().key(|order: &Order| order.id.clone());
    let batch = event(["a", "b", "c"].map(order));
    let consumer = bench.consumer(keyed().state(2).batch_handler(handler));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-2"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_ends_every_record_and_frees_their_keys() {
    let bench = Bench::new();
    let failing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(async |orders: Batch<Order>| {
            let error = match orders[0].payload().id.as_str() {
                "never" => HandlerError::terminal("no hope"),
                _ => HandlerError::retry("the database is down"),
            };
            Err::<BatchOutcome, _>(error)
        });
    let consumer = bench.consumer(failing);
    for (first, outcome) in [("a", "failed"), ("never", "terminal")] {
        let batch = event([first, "b"].map(order));
        assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
        let expected = outcomes([("m-0", outcome), ("m-1", outcome)]);
        assert_eq!(bench.outcomes(), expected);
        for id in [first, "b"] {
            let item = bench.store.item(id).unwrap();
            assert_eq!(item.lease_until, Some(Timestamp::default()), "{id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn duplicates_and_unusable_records_never_reach_the_handler() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    bench.invoke(&consumer, event([order("a")])).await;
    bench.outcomes();
    let batch = [order("a"), body("{"), order("b"), order(""), order("c")];
    assert_eq!(bench.invoke(&consumer, event(batch)).await, ["m-1", "m-3"]);
    assert_eq!(
        bench.outcomes(),
        outcomes([
            ("m-0", "duplicate"),
            ("m-1", "terminal"),
            ("m-2", "processed"),
            ("m-3", "terminal"),
            ("m-4", "processed")
        ])
    );
    assert_eq!(calls.lock().unwrap()[1], ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_twice_in_a_batch_is_handed_over_once() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let batch = event(["a", "bad-1", "a", "bad-1"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-1", "m-3"]);
    assert_eq!(*calls.lock().unwrap(), [["a", "bad-1"]]);
}

#[tokio::test(start_paused = true)]
async fn without_a_record_to_run_there_is_no_call() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    bench.invoke(&consumer, event(["a", "b"].map(order))).await;
    let nothing_new = event([order("a"), body("{"), order("b")]);
    assert_eq!(bench.invoke(&consumer, nothing_new).await, ["m-1"]);
    assert!(bench.invoke(&consumer, event([])).await.is_empty());
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_key_takes_part_where_the_policy_lets_it() {
    let bench = Bench::new();
    let calls = Calls::default();
    let noting = {
        let calls = Arc::clone(&calls);
        consumer::<Order>()
            .key(MessageAttribute::new("order-id"))
            .batch_handler(move |orders: Batch<Order>| {
                calls.lock().unwrap().push(ids(&orders));
                async move { say(&orders) }
            })
    };
    let consumer = bench.consumer(noting);
    let consumer = consumer.missing_key(MissingKey::ProcessUnprotected);
    let mut keyed = order("b");
    keyed["messageAttributes"] =
        json!({ "order-id": { "dataType": "String", "stringValue": "b" } });
    let batch = event([order("a"), keyed, order("bad-1")]);
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-2"]);
    assert_eq!(*calls.lock().unwrap(), [["a", "b", "bad-1"]]);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_every_record_fails_and_its_claim_is_left_to_lapse() {
    let bench = Bench::new();
    let consumer = taking(&bench, Duration::MAX);
    let begun = bench.clock.now();
    let batch = event(["a", "b"].map(order));
    assert_eq!(bench.invoke(&consumer, batch.clone()).await, ["m-0", "m-1"]);
    let taken = bench.clock.now().since(begun);
    assert_eq!(taken, bench.timeout - Duration::from_secs(1));
    for id in ["a", "b"] {
        let item = bench.store.item(id).unwrap();
        assert_eq!(item.status, Status::InProgress);
        let lease = bench.clock.now() + Duration::from_secs(1 + 3);
        assert_eq!(item.lease_until, Some(lease));
    }
    bench.outcomes();
    bench.invoke(&consumer, batch).await;
    let held = outcomes([("m-0", "in_progress"), ("m-1", "in_progress")]);
    assert_eq!(bench.outcomes(), held);
}

#[tokio::test(start_paused = true)]
async fn the_record_timeout_limits_the_call() {
    let bench = Bench::new();
    let consumer = taking(&bench, Duration::MAX).record_timeout(Duration::from_secs(5));
    let begun = bench.clock.now();
    let batch = event(["a", "b"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    assert_eq!(bench.clock.now().since(begun), Duration::from_secs(5));
    let item = bench.store.item("a").unwrap();
    assert!(item.lease_until > Some(bench.clock.now()));
}

#[tokio::test(start_paused = true)]
async fn a_record_in_progress_elsewhere_is_returned_and_the_others_run() {
    let bench = Bench::new();
    let slow = taking(&bench, Duration::from_secs(10));
    let (consumer, calls) = noting(&bench);
    let second = async {
        sleep(Duration::from_secs(1)).await;
        bench.invoke(&consumer, event(["a", "b"].map(order))).await
    };
    let (first, second) = tokio::join!(bench.invoke(&slow, event([order("a")])), second);
    assert!(first.is_empty());
    assert_eq!(second, ["m-0"]);
    assert_eq!(*calls.lock().unwrap(), [["b"]]);
}

#[tokio::test(start_paused = true)]
async fn the_call_waits_for_records_in_progress_elsewhere_as_long_as_the_policy_says() {
    for (longest, failed, called) in [(5, vec!["m-0"], 6), (15, vec![], 10)] {
        let bench = Bench::new();
        let slow = taking(&bench, Duration::from_secs(10));
        let (consumer, calls) = noting(&bench);
        let consumer = consumer.in_progress(InProgress::Wait(Duration::from_secs(longest)));
        let begun = bench.clock.now();
        let second = async {
            sleep(Duration::from_secs(1)).await;
            let second = bench.invoke(&consumer, event(["a", "b"].map(order))).await;
            (second, bench.clock.now().since(begun))
        };
        let (_, (second, ended)) = tokio::join!(bench.invoke(&slow, event([order("a")])), second);
        assert_eq!(second, failed);
        assert_eq!(*calls.lock().unwrap(), [["b"]]);
        assert!(ended >= Duration::from_secs(called) && ended < Duration::from_secs(called + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_the_time_is_kept_for_the_call_whatever_the_claims_wait_for() {
    let bench = Bench::new();
    let slow = taking(&bench, Duration::from_secs(28));
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.in_progress(InProgress::Wait(Duration::MAX));
    let begun = bench.clock.now();
    let second = async {
        tokio::task::yield_now().await;
        let second = bench.invoke(&consumer, event(["a", "b"].map(order))).await;
        (second, bench.clock.now().since(begun))
    };
    let (_, (second, ended)) = tokio::join!(bench.invoke(&slow, event([order("a")])), second);
    assert_eq!(second, ["m-0"]);
    assert_eq!(ended, Duration::from_millis(29_000 / 2));
    assert_eq!(*calls.lock().unwrap(), [["b"]]);
}

/// A store that takes five seconds for every claim request.
struct Slow(MemoryStore);

impl Store for Slow {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async {
            sleep(Duration::from_secs(5)).await;
            self.0.claim(claims).await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.0.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.0.read(ids)
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_store_could_not_claim_in_half_of_the_time_goes_back_and_the_rest_runs() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.store(Slow(MemoryStore::new()));
    let batch = event((0..1000).map(|at| order(&format!("k{at}"))));
    let failed = bench.invoke(&consumer, batch).await;
    // Eight concurrent requests of 25 claims, answered at 5 s and 10 s of 29 s. The answers at 15 s are too late.
    assert_eq!(failed.len(), 600);
    assert_eq!(calls.lock().unwrap()[0].len(), 400);
}

#[tokio::test(start_paused = true)]
async fn record_after_recognises_what_was_recorded() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.mode(Mode::RecordAfter);
    let batch = event(["a", "bad-1", "b"].map(order));
    for _ in 0..2 {
        assert_eq!(bench.invoke(&consumer, batch.clone()).await, ["m-1"]);
    }
    assert_eq!(
        *calls.lock().unwrap(),
        [vec!["a", "bad-1", "b"], vec!["bad-1"]]
    );
}

#[tokio::test(start_paused = true)]
async fn hooks_are_called_for_each_record_by_itself() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let ended = Arc::new(Mutex::new(Vec::new()));
    let note = {
        let ended = Arc::clone(&ended);
        move |end: RecordEnd| {
            let line = format!("{} {}", end.message().id(), end.outcome());
            ended.lock().unwrap().push(line);
            async { Ok(()) }
        }
    };
    let consumer = consumer.on_success(note.clone()).on_failure(note);
    bench
        .invoke(&consumer, event(["a", "bad-1", "b"].map(order)))
        .await;
    ended.lock().unwrap().sort();
    assert_eq!(
        *ended.lock().unwrap(),
        ["m-0 processed", "m-1 failed", "m-2 processed"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_outcome_of_another_batch_is_a_success_of_nobody() {
    let bench = Bench::new();
    let kept: Arc<Mutex<Option<BatchOutcome>>> = Arc::default();
    let mixing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(move |orders: Batch<Order>| {
            let mine = orders.all_succeeded();
            let theirs = kept.lock().unwrap().replace(orders.all_succeeded());
            async move { theirs.unwrap_or(mine) }
        });
    let consumer = bench.consumer(mixing);
    assert!(
        bench
            .invoke(&consumer, event([order("a")]))
            .await
            .is_empty()
    );
    assert_eq!(bench.invoke(&consumer, event([order("b")])).await, ["m-0"]);
    let lines = bench.log.take("sqs_once::record");
    assert_eq!(
        lines[1]["reason"],
        "the batch handler returned the outcome of another batch"
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_of_another_batch_is_no_record_of_this_one() {
    let bench = Bench::new();
    let kept: Arc<Mutex<Vec<Batch<Order>>>> = Arc::default();
    let mixing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(move |orders: Batch<Order>| {
            let mut outcome = orders.outcome();
            let mut kept = kept.lock().unwrap();
            kept.push(orders);
            for record in &kept[0] {
                outcome.succeeded(record);
            }
            async move { outcome }
        });
    let consumer = bench.consumer(mixing);
    assert!(
        bench
            .invoke(&consumer, event([order("a")]))
            .await
            .is_empty()
    );
    assert_eq!(bench.invoke(&consumer, event([order("b")])).await, ["m-0"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_record_that_is_said_twice_the_first_failure_stands() {
    let bench = Bench::new();
    let contradicting = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .batch_handler(async |orders: Batch<Order>| {
            let mut outcome = orders.outcome();
            outcome.failed(&orders[0], "first");
            outcome.succeeded(&orders[0]);
            outcome.succeeded(&orders[1]);
            outcome.failed(&orders[1], "first");
            outcome.failed(&orders[1], HandlerError::terminal("second"));
            outcome.succeeded(&orders[2]);
            outcome.ended(&orders[2], Recorded("last"));
            outcome
        });
    let consumer = bench.consumer(contradicting);
    let batch = event(["a", "b", "c"].map(order));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-0", "m-1"]);
    let lines = bench.log.take("sqs_once::record");
    let failed = lines.iter().filter(|line| line["outcome"] == "failed");
    assert!(failed.map(|line| &line["reason"]).eq(["first", "first"]));
    assert_eq!(*bench.store.item("c").unwrap().data.unwrap(), *"\"last\"");
}
