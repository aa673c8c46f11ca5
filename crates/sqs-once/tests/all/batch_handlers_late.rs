//! Batch handlers after a slow request: records that are ready run, with half of the batch's time, and the rest fail.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, TestStore, event, grouped, order, outcomes};
use serde_json::json;
use sqs_once::hook::RecordEnd;
use sqs_once::key::ItemId;
use sqs_once::store::Store;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, StoreFuture};
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Batch, Consumer, consumer};
use tokio::time::sleep;

/// The start and the orders of each call.
type Calls = Arc<Mutex<Vec<(Duration, Vec<String>)>>>;

fn noting(bench: &Bench) -> (Consumer, Calls) {
    let calls = Calls::default();
    let noting = {
        let (calls, clock) = (Arc::clone(&calls), bench.clock.clone());
        let begun = clock.now();
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .batch_handler(move |orders: Batch<Order>| {
                let ids = orders.payloads().map(|order| order.id.clone());
                let call = (clock.now().since(begun), ids.collect());
                calls.lock().unwrap().push(call);
                async move { orders.all_succeeded() }
            })
    };
    (bench.consumer(noting), calls)
}

/// A store in which one request hangs. All requests but the last carry 25 claims.
struct Hanging {
    store: TestStore,
    is_last: bool,
    /// How long the request hangs: for ever if `None`.
    time: Option<Duration>,
}

impl Store for Hanging {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            if (claims.len() < 25) == self.is_last {
                match self.time {
                    Some(time) => sleep(time).await,
                    None => pending().await,
                }
            }
            self.store.claim(claims).await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.store.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.store.read(ids)
    }
}

fn hanging(bench: &Bench, is_last: bool, time: Option<Duration>) -> Hanging {
    let store = bench.store.clone();
    Hanging {
        store,
        is_last,
        time,
    }
}

/// Half of 30 s, minus the deadline margin of 1 s.
const HALF: Duration = Duration::from_millis(14_500);

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_never_answered_holds_the_others_up_for_half_of_the_time() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.store(hanging(&bench, true, None));
    let batch = event((0..26).map(|at| order(&format!("k{at}"))));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-25"]);
    let calls = calls.lock().unwrap();
    assert_eq!((calls.len(), calls[0].0, calls[0].1.len()), (1, HALF, 25));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_the_call_began_is_given_back() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.store(hanging(&bench, true, Some(Duration::from_secs(20))));
    let batch = event((0..26).map(|at| order(&format!("k{at}"))));
    assert_eq!(bench.invoke(&consumer, batch).await, ["m-25"]);
    assert_eq!(calls.lock().unwrap().len(), 1);
    let item = bench.store.item("k25").unwrap();
    assert_eq!(item.lease_until, Some(Timestamp::default()));
}

#[tokio::test(start_paused = true)]
async fn in_a_group_nothing_runs_behind_a_claim_that_is_not_answered() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.store(hanging(&bench, false, None));
    let mut records: Vec<_> = (0..25).map(|at| grouped("a", &format!("k{at}"))).collect();
    records.extend([grouped("a", "behind"), grouped("b", "b1")]);
    let failed = bench.invoke(&consumer, event(records)).await;
    let group: Vec<_> = (0..26).map(|at| format!("m-{at}")).collect();
    assert_eq!(failed, group);
    assert_eq!(*calls.lock().unwrap(), [(HALF, vec!["b1".to_owned()])]);
    let item = bench.store.item("behind").unwrap();
    assert_eq!(item.lease_until, Some(Timestamp::default()));
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_that_never_ends_keeps_no_other_group_from_running() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    let consumer = consumer.on_failure(async |_: RecordEnd| pending().await);
    let mut poison = grouped("a", "");
    poison["body"] = json!("{");
    let records = [poison, grouped("a", "a2"), grouped("b", "b1")];
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert_eq!(
        *calls.lock().unwrap(),
        [(Duration::ZERO, vec!["b1".to_owned()])]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_decides_too_late_stops_its_own_group_alone() {
    let bench = Bench::new();
    let (consumer, calls) = noting(&bench);
    bench.invoke(&consumer, event([grouped("a", "a1")])).await;
    bench.outcomes();
    let consumer = consumer.on_duplicate(async |_: RecordEnd| {
        sleep(Duration::from_secs(20)).await;
        Ok(())
    });
    let records = [("a", "a1"), ("a", "a2"), ("b", "b1")];
    let records = records.map(|(group, id)| grouped(group, id));
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-1"]);
    assert_eq!(calls.lock().unwrap()[1], (HALF, vec!["b1".to_owned()]));
    let expected = [
        ("m-0", "duplicate"),
        ("m-1", "failed"),
        ("m-2", "processed"),
    ];
    assert_eq!(bench.outcomes(), outcomes(expected));
    let item = bench.store.item("a2").unwrap();
    assert_eq!(item.lease_until, Some(Timestamp::default()));
}
