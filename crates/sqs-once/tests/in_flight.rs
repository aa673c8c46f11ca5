//! How many requests are under way at once, and how many keys each carries.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, Store, StoreFuture};
use sqs_once::{MemoryStore, Requests, consumer, key::ItemId};
use support::{Bench, Order, event, order};
use tokio::time::sleep;

/// The most calls of one kind that were under way at once, and the most entries of one.
#[derive(Default)]
struct Peak {
    now: usize,
    calls: usize,
    entries: usize,
}

#[derive(Clone, Default)]
struct Slow {
    inner: MemoryStore,
    claims: Arc<Mutex<Peak>>,
    settlements: Arc<Mutex<Peak>>,
}

async fn slowly<T>(peak: &Mutex<Peak>, entries: usize, call: impl Future<Output = T>) -> T {
    {
        let mut peak = peak.lock().unwrap();
        peak.now += 1;
        peak.calls = peak.calls.max(peak.now);
        peak.entries = peak.entries.max(entries);
    }
    sleep(Duration::from_millis(10)).await;
    let answer = call.await;
    peak.lock().unwrap().now -= 1;
    answer
}

impl Store for Slow {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        let call = self.inner.claim(claims);
        Box::pin(slowly(&self.claims, claims.len(), call))
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let call = self.inner.settle(settlements);
        Box::pin(slowly(&self.settlements, settlements.len(), call))
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.inner.read(ids)
    }
}

/// The most claims and settlements under way, and how many keys each carried, of a batch of 400.
async fn peaks(requests: Requests) -> [(usize, usize); 2] {
    let bench = Bench::new();
    let store = Slow::default();
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
    let [claims, settlements] = peaks(Requests::Batched).await;
    assert_eq!(claims, (4, 25));
    assert!(settlements.0 <= 8, "{settlements:?}");
    assert_eq!(settlements.1, 25);
}

#[tokio::test(start_paused = true)]
async fn single_requests_carry_one_key_and_are_bounded() {
    assert_eq!(peaks(Requests::Single).await, [(32, 1), (32, 1)]);
}
