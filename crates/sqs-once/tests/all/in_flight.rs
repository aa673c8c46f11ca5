//! The number of requests in flight, and of keys in each.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, event, order};
use sqs_once::key::ItemId;
use sqs_once::policy::Requests;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, Store, StoreFuture};
use sqs_once::time::Timestamp;
use sqs_once::{BusinessKey, MemoryStore, consumer};
use tokio::time::{Instant, sleep};

const ROUND_TRIP: Duration = Duration::from_millis(10);

/// The most calls of one kind in flight, and the most entries in one call.
#[derive(Default)]
struct Peak {
    now: usize,
    calls: usize,
    entries: usize,
}

#[derive(Clone)]
struct Slow {
    inner: MemoryStore,
    claiming: Duration,
    settling: Duration,
    claims: Arc<Mutex<Peak>>,
    settlements: Arc<Mutex<Peak>>,
}

impl Slow {
    fn new(claiming: Duration, settling: Duration) -> Self {
        Self {
            inner: MemoryStore::new(),
            claiming,
            settling,
            claims: Arc::default(),
            settlements: Arc::default(),
        }
    }
}

async fn slowly<T>(
    time: Duration,
    peak: &Mutex<Peak>,
    entries: usize,
    call: impl Future<Output = T>,
) -> T {
    {
        let mut peak = peak.lock().unwrap();
        peak.now += 1;
        peak.calls = peak.calls.max(peak.now);
        peak.entries = peak.entries.max(entries);
    }
    sleep(time).await;
    let answer = call.await;
    peak.lock().unwrap().now -= 1;
    answer
}

impl Store for Slow {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        let call = self.inner.claim(claims);
        Box::pin(slowly(self.claiming, &self.claims, claims.len(), call))
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let call = self.inner.settle(settlements);
        Box::pin(slowly(
            self.settling,
            &self.settlements,
            settlements.len(),
            call,
        ))
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.inner.read(ids)
    }
}

/// The duration of a batch with `keys` keys, in round trips to the store.
async fn round_trips(keys: usize) -> u128 {
    let bench = Bench::new();
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |_: Order| ());
    let store = Slow::new(ROUND_TRIP, ROUND_TRIP);
    let consumer = bench.consumer(consumer).store(store);
    let records = (0..keys).map(|at| order(&format!("k{at}")));
    let start = Instant::now();
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    start.elapsed().as_millis() / ROUND_TRIP.as_millis()
}

#[tokio::test(start_paused = true)]
async fn a_group_that_nothing_more_can_join_waits_for_no_other() {
    for keys in [1, 25, 30, 99, 100] {
        assert_eq!(round_trips(keys).await, 2, "{keys} keys");
    }
}

/// For a batch of 400: the most claims and settlements in flight, and the most keys in each.
async fn peaks(requests: Requests) -> [(usize, usize); 2] {
    let bench = Bench::new();
    // Claims arrive faster than settlements finish, so only the limit on settlements delays them.
    let store = Slow::new(ROUND_TRIP, 20 * ROUND_TRIP);
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .requests(requests)
        .concurrency(400)
        .handler(async |_: Order| ());
    let consumer = bench.consumer(consumer).store(store.clone());
    let records = (0..400).map(|at| order(&format!("k{at}")));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    [store.claims, store.settlements].map(|peak| {
        let peak = peak.lock().unwrap();
        (peak.calls, peak.entries)
    })
}

#[tokio::test(start_paused = true)]
async fn batched_requests_are_full_and_few() {
    assert_eq!(peaks(Requests::Batched).await, [(8, 25), (8, 25)]);
}

#[tokio::test(start_paused = true)]
async fn single_requests_carry_one_key_and_are_bounded() {
    assert_eq!(peaks(Requests::Single).await, [(32, 1), (32, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_leaves_before_the_records_of_the_next_are_read() {
    let bench = Bench::new();
    let read = Arc::new(AtomicUsize::new(0));
    let store = Asked {
        inner: MemoryStore::new(),
        read: Arc::clone(&read),
        claims: Arc::default(),
    };
    let consumer = consumer::<Order>()
        .key(move |order: &Order| {
            read.fetch_add(1, SeqCst);
            order.id.clone()
        })
        .handler(async |_: Order| ());
    let consumer = bench.consumer(consumer).store(store.clone());
    let records = (0..75).map(|at| order(&format!("k{at}")));
    assert!(bench.invoke(&consumer, event(records)).await.is_empty());
    assert_eq!(*store.claims.lock().unwrap(), [25, 50, 75]);
}

/// A store that records how many records had been read at each claim request.
#[derive(Clone)]
struct Asked {
    inner: MemoryStore,
    read: Arc<AtomicUsize>,
    claims: Arc<Mutex<Vec<usize>>>,
}

impl Store for Asked {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.claims.lock().unwrap().push(self.read.load(SeqCst));
        let call = self.inner.claim(claims);
        Box::pin(async {
            sleep(ROUND_TRIP).await;
            call.await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.inner.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.inner.read(ids)
    }
}

/// Never answers a claim request of fewer or more than 25 claims, nor the first settlement.
#[derive(Clone)]
struct Hanging {
    inner: MemoryStore,
    settlements: Arc<AtomicUsize>,
}

impl Store for Hanging {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        match claims.len() {
            25 => self.inner.claim(claims),
            _ => Box::pin(pending()),
        }
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        match self.settlements.fetch_add(1, SeqCst) {
            0 => Box::pin(pending()),
            _ => self.inner.settle(settlements),
        }
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.inner.read(ids)
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_completions_wait_for_no_write_that_hangs() {
    let bench = Bench::new();
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .concurrency(25)
        .handler(async |order: Order| {
            // The first record's completion is sent alone, and the others wait for it.
            if order.id != "k0" {
                sleep(ROUND_TRIP).await;
            }
        });
    let store = Hanging {
        inner: MemoryStore::new(),
        settlements: Arc::default(),
    };
    let consumer = bench.consumer(consumer).store(store);
    let records = (0..26).map(|at| order(&format!("k{at}")));
    let failed = bench.invoke(&consumer, event(records)).await;
    assert_eq!(failed, ["m-0", "m-25"]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_when_what_failed_in_it_was_given_back() {
    let bench = Bench::new();
    let store = Slow::new(Duration::ZERO, ROUND_TRIP);
    let consumer = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |_: Order| Err::<(), _>("no luck"));
    let consumer = bench.consumer(consumer).store(store.clone());
    let failed = bench.invoke(&consumer, event([order("a")])).await;
    assert_eq!(failed, ["m-0"]);
    let id = crate::support::item_id(&BusinessKey::new("a").unwrap());
    let item = store.inner.get(&id).unwrap();
    assert_eq!(item.lease_until, Some(Timestamp::default()));
}
