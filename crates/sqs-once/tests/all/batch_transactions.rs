//! Batch handlers in a transaction of their store: the claims, the effects and the completions of a call commit together.

use serde_json::{Value, json};
use sqs_once::body::AsyncDecode;
use sqs_once::consumer::{Cache, Together};
use sqs_once::extract::Message;
use sqs_once::policy::MissingKey;
use sqs_once::store::Status;
use sqs_once::store::StoreErrorKind::{AccessDenied, Throttled};
use sqs_once::{Batch, BatchHandler, BatchOutcome, Handler, HandlerError};
use tokio::time::sleep;

use crate::support::database::{Booking, Ledger, Turn};
use crate::support::{
    Bench, Notes, Order, SECOND, assert_contains, assert_ends_as_said, codes, ends, ids, in_group,
    in_groups, json_body, keys, order, orders, outcome, values, with_attribute,
};

/// A consumer whose batch handler writes the orders that succeed, and the orders of each call.
type BatchBooking = Booking<Together, Vec<String>>;

/// A call whose first order is named `fails`, `panics`, `sleeps` or `ends` does so after its writes.
fn booking() -> BatchBooking {
    booking_with(|it| it)
}

fn booking_with(settings: impl FnOnce(BatchHandler) -> BatchHandler) -> BatchBooking {
    let (calls, notes) = Notes::pair();
    let handler = orders().call_batch(move |orders: Batch<Order>, ledger: Ledger| {
        let ids = ids(&orders);
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
    });
    Booking::on(settings(handler), calls)
}

#[tokio::test(start_paused = true)]
async fn all_records_of_a_call_share_one_transaction() {
    let booking = booking();
    assert_eq!(booking.run(keys(130)).await, [""; 0]);
    let all: Vec<_> = keys(130).collect();
    assert_eq!(booking.seen.take(), std::slice::from_ref(&all));
    assert_eq!(booking.database.effects(), all);
    let requests = [("begin", 130), ("commit", 130)];
    assert_eq!(booking.store.take_calls(), requests);
    assert_eq!(booking.store.item("k7").unwrap().status, Status::Completed);

    // The next delivery has a new record too.
    let again = all.into_iter().chain(["new".to_owned()]);
    assert_eq!(booking.run(again).await, [""; 0]);
    assert_eq!(booking.seen.take(), [["new"]]);
    assert_eq!(booking.store.take_calls(), [("begin", 131), ("commit", 1)]);
    assert_eq!(booking.database.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_duplicates_calls_no_handler_and_leaves_no_transaction_open() {
    let cached = booking().with_consumer(|it| it.cache(Cache::new(10)));
    cached.run(["a", "b"]).await;
    cached.store.take_calls();
    cached.seen.take();
    // The cache knows them.
    assert_eq!(cached.run(["a", "b"]).await, [""; 0]);
    assert_eq!(cached.store.take_calls(), []);
    assert_eq!(cached.run(["a", "c"]).await, [""; 0]);
    assert_eq!(cached.store.take_calls(), [("begin", 1), ("commit", 1)]);

    let booking = booking();
    booking.run(["a", "b"]).await;
    booking.store.take_calls();
    assert_eq!(booking.run(["a", "b", "a"]).await, [""; 0]);
    assert_eq!(booking.store.take_calls(), [("begin", 2)]);
    assert_eq!(booking.seen.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_record_ends_as_the_handler_says_and_the_keys_of_failures_are_free() {
    let booking = booking();
    assert_ends_as_said(&booking, "processed").await;
    assert_eq!(booking.database.effects(), ["a", "b"]);
    for id in ["bad-1", "hopeless-1", "unsaid-1"] {
        assert!(booking.store.is_released(id), "{id}");
    }
    assert_eq!(booking.run(["bad-1"]).await, ["m-0"]);
    assert_eq!(booking.seen.take().last().unwrap(), &["bad-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_or_ends_its_own_transaction_leaves_nothing_behind() {
    for first in ["fails", "panics", "sleeps", "ends", "bad-1"] {
        let batch = [first, "bad-2"];
        let booking = booking();
        assert_eq!(booking.run(batch).await, ["m-0", "m-1"], "{batch:?}");
        assert_eq!(booking.outcomes(), "failed failed");
        assert_eq!(booking.database.effects(), [""; 0], "{batch:?}");
        assert_eq!(booking.database.open(), 0, "{batch:?}");
        assert_eq!(booking.store.item(batch[0]), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_not_sent_again_and_the_next_delivery_knows() {
    for (turn, ends, later) in [
        (Turn::Fail(Throttled), "failed: not-committed", "processed"),
        (Turn::LoseAnswer, "failed: commit-unconfirmed", "duplicate"),
    ] {
        let booking = booking();
        booking.database.commits([turn]);
        assert_eq!(booking.run(["a", "b"]).await, ["m-0", "m-1"]);
        assert_eq!(booking.store.take_calls(), [("begin", 2), ("commit", 2)]);
        let lines = booking.lines();
        assert_contains!(lines[0]["reason"], "commit");
        assert_eq!(codes(&lines), [ends; 2].join(", "));
        assert_eq!(booking.run(["a", "b"]).await, [""; 0]);
        assert_eq!(booking.outcomes(), [later; 2].join(" "));
        assert_eq!(booking.database.effects(), ["a", "b"]);
        assert_eq!(booking.seen.len(), 1 + usize::from(later == "processed"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_cant_begin_is_begun_again_for_all_records() {
    let booking = booking();
    let throttled = || Turn::Fail(Throttled);
    booking.database.begins([throttled(), throttled()]);
    assert_eq!(booking.run(["a", "b"]).await, [""; 0]);
    let begins = [("begin", 2), ("begin", 2), ("begin", 2), ("commit", 2)];
    assert_eq!(booking.store.take_calls(), begins);
    assert_eq!(booking.database.effects(), ["a", "b"]);

    booking.database.begins_always(Turn::Fail(AccessDenied));
    assert_eq!(booking.run(["c", "d"]).await, ["m-0", "m-1"]);
    assert_eq!(booking.store.take_calls(), [("begin", 2)]);
    assert_eq!(booking.seen.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_transaction_holds_holds_up_no_other_record_for_good() {
    let booking = booking();
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
    let booking = booking();
    let held = booking.database.lock("b").await;
    let batch = in_groups("x/a x/b x/c y/d");
    assert_eq!(booking.run(batch).await, ["m-1", "m-2"]);
    assert_eq!(booking.seen.take(), [["a", "d"]]);
    assert_eq!(booking.database.effects(), ["a", "d"]);
    assert!(booking.store.is_released("c"));
    drop(held);
    assert_eq!(booking.run(in_groups("x/b x/c")).await, [""; 0]);
}

/// A transaction is begun once, so that nothing could be claimed again after the first record's refusal.
#[tokio::test(start_paused = true)]
async fn behind_a_message_with_another_payload_a_copy_of_the_completed_one_is_a_duplicate() {
    let paid = |id: &str, cents: u32| json_body(&json!({ "id": id, "cents": cents }));
    let handler = values().call_batch(async |orders: Batch<Value>, ledger: Ledger| {
        for order in orders.payloads() {
            ledger.write(order["id"].as_str().unwrap());
        }
        orders.all_succeeded()
    });
    let bench = Booking::on(handler, Notes::<String>::default());
    assert_eq!(bench.run([paid("a", 1)]).await, [""; 0]);
    bench.outcomes();
    let batch = [2, 2, 1, 3, 1].map(|cents| paid("a", cents));
    assert_eq!(bench.run(batch).await, ["m-0", "m-1", "m-3"]);
    let expected = "terminal terminal duplicate terminal duplicate";
    assert_eq!(bench.outcomes(), expected);
}

/// An order that [`Slow`] decodes in this many seconds.
fn slow(id: &str, seconds: u32) -> Value {
    with_attribute(order(id), "seconds", &seconds.to_string())
}

/// Takes as many seconds as the message's attribute states.
#[derive(Clone)]
struct Slow;

impl AsyncDecode<Order> for Slow {
    async fn decode(&self, body: &str, message: &Message) -> Result<Order, HandlerError> {
        let seconds = message.attribute("seconds").unwrap_or_default();
        sleep(seconds.parse::<u32>()? * SECOND).await;
        Ok(serde_json::from_str(body)?)
    }
}

/// A consumer that decodes slowly, and whose batch handler takes a second to write all orders.
fn decoding_slowly() -> Booking<Together> {
    let keyed = Handler::decode(Slow).key(|order: &Order| order.id.clone());
    let handler = keyed.call_batch(async |orders: Batch<Order>, ledger: Ledger| {
        for order in orders.payloads() {
            ledger.write(&order.id);
        }
        sleep(SECOND).await;
        orders.all_succeeded()
    });
    Booking::on(handler, Notes::default())
}

#[tokio::test(start_paused = true)]
async fn the_transaction_begins_when_all_payloads_are_there_or_half_of_the_time_is_over() {
    let too_late = "its key could not be claimed in half of the batch's time";
    let never = "the deadline came before its payload was there";
    for (slowest, said) in [(3, None), (20, Some(too_late)), (1000, Some(never))] {
        let bench = decoding_slowly();
        let batch = [slow("a", 0), slow("b", slowest), slow("c", 1)];
        let late = usize::from(said.is_some());
        assert_eq!(bench.run(batch).await, ["m-1"][..late]);
        let claimed = 3 - late;
        let requests = [("begin", claimed), ("commit", claimed)];
        assert_eq!(bench.store.take_calls(), requests);
        assert_eq!(bench.database.effects().len(), claimed);
        let reason = bench.lines()[1].remove("reason");
        assert_eq!(reason.as_deref(), said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_copy_is_decoded_first_keeps_its_place_in_its_group() {
    for (batch, failed, expected) in [
        (["g/a/3", "g/b/0", "g/a/0"].as_slice(), &[][..], ["a", "b"]),
        (&["g/a/3", "g/b/0", "h/a/0", "h/c/0"], &["m-1"], ["a", "c"]),
    ] {
        let bench = decoding_slowly();
        let records = batch.iter().map(|record| {
            let mut parts = record.split('/');
            let [group, id, seconds] = [(); 3].map(|()| parts.next().unwrap());
            in_group(group, slow(id, seconds.parse().unwrap()))
        });
        assert_eq!(bench.run(records).await, failed);
        assert_eq!(bench.database.effects(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_without_a_key_that_comes_after_the_call_waits_for_its_next_delivery() {
    let handler = Handler::decode(Slow)
        .key(|order: &Order| (order.id != "b").then(|| order.id.clone()))
        .call_batch(async |orders: Batch<Order>| {
            sleep(10 * SECOND).await;
            orders.all_succeeded()
        })
        .missing_key(MissingKey::ProcessUnprotected);
    let bench = Bench::new().on(handler);
    assert_eq!(bench.run([slow("a", 0), slow("b", 20)]).await, ["m-1"]);
    assert_contains!(ends(bench.lines())[1].1, "its batch had begun");
    assert!(bench.elapsed() < 25 * SECOND);
}
