//! Batch handlers in a transaction of their store: the claims, the effects and the completions of a call commit together.

use std::ops::Deref;

use serde_json::json;
use sqs_once::body::AsyncDecode;
use sqs_once::extract::Message;
use sqs_once::policy::{Cache, FifoFailure, MissingKey, PayloadMismatch};
use sqs_once::store::Status;
use sqs_once::store::StoreErrorKind::{AccessDenied, Throttled};
use sqs_once::{Batch, BatchOutcome, Consumer, HandlerError, consumer_with};
use tokio::time::sleep;

use crate::support::database::{Database, Ledger, Turn};
use crate::support::{
    Bench, Notes, Order, SECOND, Seen, Tested, assert_contains, ends, grouped, in_group, in_groups,
    json_body, keys, orders, outcome, told,
};

/// A consumer whose batch handler writes the orders that succeed, and the orders of each call.
struct Booking {
    bench: Tested,
    database: Database,
    calls: Notes<Vec<String>>,
}

impl Deref for Booking {
    type Target = Tested;

    fn deref(&self) -> &Tested {
        &self.bench
    }
}

impl Booking {
    /// A call whose first order is named `fails`, `panics`, `sleeps` or `ends` does so after its writes.
    fn new() -> Self {
        Self::with(|it| it)
    }

    fn with(settings: impl FnOnce(Consumer) -> Consumer) -> Self {
        let bench = Bench::new();
        let (database, calls) = (Database::beside(&bench.store), Notes::default());
        let notes = calls.clone();
        let handler = move |orders: Batch<Order>, ledger: Ledger| {
            let ids: Vec<_> = orders.payloads().map(|order| order.id.clone()).collect();
            notes.add(ids.clone());
            async move {
                for id in ids.iter().filter(|id| !id.contains('-')) {
                    ledger.write(id);
                }
                match &*ids[0] {
                    "fails" => return Err(HandlerError::retry("no luck")),
                    "panics" => panic!("no luck"),
                    "sleeps" => sleep(1000 * SECOND).await,
                    "ends" => ledger.end(),
                    _ => {}
                }
                Ok::<BatchOutcome, HandlerError>(outcome(&orders))
            }
        };
        let consumer = settings(orders().batch_handler(handler));
        let bench = bench.on(consumer).with(|it| it.store(database.clone()));
        Self {
            bench,
            database,
            calls,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_records_of_a_call_share_one_transaction() {
    let booking = Booking::new();
    assert_eq!(booking.run(keys(130)).await, [""; 0]);
    let all: Vec<_> = keys(130).collect();
    assert_eq!(booking.calls.take(), std::slice::from_ref(&all));
    assert_eq!(booking.database.effects(), all);
    assert_eq!(
        booking.store.take_calls(),
        [("begin", 130), ("commit", 130)]
    );
    assert_eq!(booking.store.item("k7").unwrap().status, Status::Completed);

    // The next delivery has a new record too.
    let again = all.into_iter().chain(["new".to_owned()]);
    assert_eq!(booking.run(again).await, [""; 0]);
    assert_eq!(booking.calls.take(), [["new"]]);
    assert_eq!(booking.store.take_calls(), [("begin", 131), ("commit", 1)]);
    assert_eq!(booking.database.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_duplicates_calls_no_handler_and_leaves_no_transaction_open() {
    let booking = Booking::with(|it| it.cache(Cache::new(10)));
    booking.run(["a", "b"]).await;
    booking.store.take_calls();
    booking.calls.take();
    // The cache knows them.
    assert_eq!(booking.run(["a", "b"]).await, [""; 0]);
    assert_eq!(booking.store.take_calls(), []);
    assert_eq!(booking.run(["a", "c"]).await, [""; 0]);
    assert_eq!(booking.store.take_calls(), [("begin", 1), ("commit", 1)]);

    let booking = Booking::new();
    booking.run(["a", "b"]).await;
    booking.store.take_calls();
    assert_eq!(booking.run(["a", "b", "a"]).await, [""; 0]);
    assert_eq!(booking.store.take_calls(), [("begin", 2)]);
    assert_eq!(booking.calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_record_ends_as_the_handler_says_and_the_keys_of_failures_are_free() {
    let booking = Booking::new();
    let batch = ["a", "bad-1", "hopeless-1", "unsaid-1", "b"];
    assert_eq!(booking.run(batch).await, ["m-1", "m-2", "m-3"]);
    let expected = [
        ("processed", ""),
        ("failed", "no luck"),
        ("terminal", "no use"),
        ("failed", "the batch handler did not say that it succeeded"),
        ("processed", ""),
    ];
    assert_eq!(told(&ends(booking.lines())), expected);
    assert_eq!(booking.database.effects(), ["a", "b"]);
    for id in ["bad-1", "hopeless-1", "unsaid-1"] {
        assert!(booking.store.is_released(id), "{id}");
    }
    assert_eq!(booking.run(["bad-1"]).await, ["m-0"]);
    assert_eq!(booking.calls.take().last().unwrap(), &["bad-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_or_ends_its_own_transaction_leaves_nothing_behind() {
    for (first, outcome) in [
        ("fails", "failed"),
        ("panics", "failed"),
        ("sleeps", "failed"),
        ("ends", "failed"),
        ("bad-1", "failed"),
    ] {
        let booking = Booking::new();
        let batch = match first {
            "bad-1" => vec![first, "bad-2"],
            _ => vec![first, "a"],
        };
        assert_eq!(booking.run(batch).await, ["m-0", "m-1"], "{first}");
        assert_eq!(booking.outcomes(), format!("{outcome} {outcome}"));
        assert_eq!(booking.database.effects(), [""; 0], "{first}");
        assert_eq!(booking.database.open(), 0, "{first}");
        assert_eq!(booking.store.item(first), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_not_sent_again_and_the_next_delivery_knows() {
    for (turn, later, effects) in [
        (Turn::Fail(Throttled), "processed processed", 1),
        (Turn::LoseAnswer, "duplicate duplicate", 0),
    ] {
        let booking = Booking::new();
        booking.database.commits([turn]);
        assert_eq!(booking.run(["a", "b"]).await, ["m-0", "m-1"]);
        assert_eq!(booking.store.take_calls(), [("begin", 2), ("commit", 2)]);
        assert_contains!(booking.lines()[0]["reason"], "commit");
        assert_eq!(booking.run(["a", "b"]).await, [""; 0]);
        assert_eq!(booking.outcomes(), later);
        assert_eq!(booking.database.effects(), ["a", "b"]);
        assert_eq!(booking.calls.len(), 1 + effects);
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_cant_begin_is_begun_again_for_all_records() {
    let booking = Booking::new();
    booking
        .database
        .begins([Turn::Fail(Throttled), Turn::Fail(Throttled)]);
    assert_eq!(booking.run(["a", "b"]).await, [""; 0]);
    let begins = [("begin", 2), ("begin", 2), ("begin", 2), ("commit", 2)];
    assert_eq!(booking.store.take_calls(), begins);
    assert_eq!(booking.database.effects(), ["a", "b"]);

    booking.database.begins_always(Turn::Fail(AccessDenied));
    assert_eq!(booking.run(["c", "d"]).await, ["m-0", "m-1"]);
    assert_eq!(booking.store.take_calls(), [("begin", 2)]);
    assert_eq!(booking.calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_transaction_holds_holds_up_no_other_record_for_good() {
    let booking = Booking::new();
    let held = booking.database.lock("b").await;
    assert_eq!(booking.run(["a", "b", "c"]).await, ["m-1"]);
    assert_eq!(booking.outcomes(), "processed in_progress processed");
    assert_eq!(booking.database.effects(), ["a", "c"]);
    // Half of the time was for claims, and the rest for the handler.
    let available = booking.timeout - SECOND;
    assert_eq!(booking.elapsed(), available / 2);
    drop(held);
    assert_eq!(booking.run(["b"]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_records_of_a_group_behind_one_in_progress_stay_out_of_the_transaction() {
    let booking = Booking::new();
    let held = booking.database.lock("b").await;
    let in_group = |group, id| grouped(group, id);
    let batch = [
        in_group("x", "a"),
        in_group("x", "b"),
        in_group("x", "c"),
        in_group("y", "d"),
    ];
    assert_eq!(booking.run(batch).await, ["m-1", "m-2"]);
    assert_eq!(booking.calls.take(), [["a", "d"]]);
    assert_eq!(booking.database.effects(), ["a", "d"]);
    assert!(booking.store.is_released("c"));
    drop(held);
    let batch = [in_group("x", "b"), in_group("x", "c")];
    assert_eq!(booking.run(batch).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn where_one_record_stops_the_batch_no_record_behind_it_runs() {
    let booking = Booking::with(|it| it.fifo(FifoFailure::ReturnBatch));
    let held = booking.database.lock("b").await;
    let batch = [("x", "a"), ("y", "b"), ("z", "c")];
    let batch = batch.map(|(group, id)| grouped(group, id));
    assert_eq!(booking.run(batch.clone()).await, ["m-0", "m-1", "m-2"]);
    assert_eq!(booking.calls.len(), 0);
    assert_eq!(booking.database.open(), 0);
    let ends = ends(booking.lines());
    assert_eq!(ends[0].1, "an earlier record of the batch failed");
    assert_eq!(ends[2].1, "an earlier record of the batch failed");
    drop(held);
    assert_eq!(booking.run(batch).await, [""; 0]);
}

/// Takes as many seconds as the order's total.
#[derive(Clone)]
struct Slow;

impl AsyncDecode<Order> for Slow {
    async fn decode(&self, body: &str, _: &Message) -> Result<Order, HandlerError> {
        let order: Order = serde_json::from_str(body)?;
        sleep(u32::try_from(order.total)? * SECOND).await;
        Ok(order)
    }
}

#[tokio::test(start_paused = true)]
async fn the_transaction_begins_when_all_payloads_are_there_or_half_of_the_time_is_over() {
    let late = [
        (
            20,
            "its key could not be claimed in half of the batch's time",
        ),
        (1000, "the deadline came before its payload was there"),
    ];
    for (slowest, failed, said) in [(3, &[][..], "")]
        .into_iter()
        .chain(late.map(|(slowest, said)| (slowest, &["m-1"][..], said)))
    {
        let bench = Bench::new();
        let (database, seen) = (Database::beside(&bench.store), Seen::default());
        let notes = seen.clone();
        let consumer = consumer_with(Slow)
            .key(|order: &Order| order.id.clone())
            .batch_handler(move |orders: Batch<Order>, ledger: Ledger| {
                for order in orders.payloads() {
                    ledger.write(&order.id);
                    notes.add(order.id.clone());
                }
                async move {
                    sleep(SECOND).await;
                    orders.all_succeeded()
                }
            });
        let bench = bench.on(consumer).with(|it| it.store(database.clone()));
        let order = |id, total| json_body(&json!({ "id": id, "total": total }));
        let batch = [order("a", 0), order("b", slowest), order("c", 1)];
        assert_eq!(bench.run(batch).await, failed);
        let claimed = 3 - failed.len();
        assert_eq!(
            bench.store.take_calls(),
            [("begin", claimed), ("commit", claimed)]
        );
        assert_eq!(seen.len(), claimed);
        assert_eq!(database.effects().len(), claimed);
        if !failed.is_empty() {
            assert_eq!(bench.lines()[1]["reason"], said);
        }
    }
}

/// Decodes the first message in three seconds, and the others at once.
#[derive(Clone)]
struct FirstIsSlow;

impl AsyncDecode<Order> for FirstIsSlow {
    async fn decode(&self, body: &str, message: &Message) -> Result<Order, HandlerError> {
        if message.id() == "m-0" {
            sleep(3 * SECOND).await;
        }
        Ok(serde_json::from_str(body)?)
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_copy_is_decoded_first_keeps_its_place_in_its_group() {
    for (batch, failed, expected) in [
        ("g/a g/b g/a", &[][..], &["a", "b"][..]),
        ("g/a g/b h/a h/c", &["m-1"], &["a", "c"]),
    ] {
        let bench = Bench::new();
        let database = Database::beside(&bench.store);
        let consumer = consumer_with(FirstIsSlow)
            .key(|order: &Order| order.id.clone())
            .batch_handler(async |orders: Batch<Order>, ledger: Ledger| {
                for order in orders.payloads() {
                    ledger.write(&order.id);
                }
                orders.all_succeeded()
            });
        let bench = bench.on(consumer).with(|it| it.store(database.clone()));
        assert_eq!(bench.run(in_groups(batch)).await, failed);
        assert_eq!(database.effects(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_not_decoded_in_time_stops_the_batch_if_it_should() {
    let bench = Bench::new();
    let database = Database::beside(&bench.store);
    let consumer = consumer_with(Slow)
        .key(|order: &Order| order.id.clone())
        .fifo(FifoFailure::ReturnBatch)
        .batch_handler(async |orders: Batch<Order>, _: Ledger| orders.all_succeeded());
    let bench = bench.on(consumer).with(|it| it.store(database.clone()));
    let order = |id, total| json_body(&json!({ "id": id, "total": total }));
    let batch = [("x", "a", 1000), ("x", "b", 0), ("y", "c", 0)];
    let batch = batch.map(|(group, id, total)| in_group(group, order(id, total)));
    assert_eq!(bench.run(batch).await, ["m-0", "m-1", "m-2"]);
    assert_eq!(bench.store.take_calls(), [("begin", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_payload_without_a_key_that_comes_after_the_call_waits_for_its_next_delivery() {
    let consumer = consumer_with(Slow)
        .key(|order: &Order| (order.total == 0).then(|| order.id.clone()))
        .missing_key(MissingKey::ProcessUnprotected)
        .batch_handler(async |orders: Batch<Order>| {
            sleep(10 * SECOND).await;
            orders.all_succeeded()
        });
    let bench = Bench::new().on(consumer);
    let order = |id, total| json_body(&json!({ "id": id, "total": total }));
    assert_eq!(bench.run([order("a", 0), order("b", 20)]).await, ["m-1"]);
    assert_contains!(ends(bench.lines())[1].1, "its batch had begun");
    assert!(bench.elapsed() < 25 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_must_be_claimed_after_the_transaction_has_begun_waits_for_its_next_delivery()
{
    let booking = Booking::with(|it| it.payload_mismatch(PayloadMismatch::Reject));
    let order = |total| json_body(&json!({ "id": "a", "total": total }));
    booking.run([order(1)]).await;
    booking.lines();
    let other = json_body(&json!({ "id": "b" }));
    // The second record is no copy of the first one, which the key refuses.
    assert_eq!(
        booking.run([order(2), order(1), other]).await,
        ["m-0", "m-1"]
    );
    assert_contains!(booking.lines()[1]["reason"], "its batch had begun");
    assert_eq!(booking.run([order(1)]).await, [""; 0]);
    assert_eq!(booking.outcomes(), "duplicate");
    assert_eq!(booking.database.effects(), ["a", "b"]);
}

#[tokio::test]
async fn a_store_without_transactions_is_refused_at_the_start() {
    let consumer = orders()
        .batch_handler(async |orders: Batch<Order>, _: Ledger| orders.all_succeeded())
        .namespace("test");
    let store = Bench::new().store;
    let error = consumer.store(store).init().await.unwrap_err();
    assert_contains!(error.to_string(), "the setting `store` has no transactions");
}
