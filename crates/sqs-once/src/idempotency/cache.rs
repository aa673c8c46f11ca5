//! A cache of completed keys. A duplicate of a cached key costs no request.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;

use crate::key::ItemId;
use crate::record::Message;
use crate::store::{Claim, Item, Status};
use crate::time::Timestamp;

const DEFAULT_EXPIRY: Duration = Duration::from_secs(5 * 60);
/// The largest value of a completion that is kept, in bytes.
const MAX_DATA: usize = 4 * 1024;

/// How many completed keys a process remembers, and for how long. It recognises their duplicates without a request to the
/// store.
///
/// It remembers only completions that the store has confirmed, with their fingerprint and value, and never for longer than
/// the store recognises them. Keys in progress, failed or released always cost a request. A full cache forgets the key that
/// was not used for the longest time.
///
/// It answers only messages that SQS received before the process sent the request that last showed it the completion.
/// Redeliveries are older, so they cost no request. A message that is sent or redriven later costs one. So if an operator
/// forgets a key and redrives its message, the message runs. [`Idempotency`](crate::Idempotency) knows no time of sending: a
/// process that remembers a forgotten key treats its events as duplicates until the cache's expiry.
///
/// A key takes about half a KiB, plus a completion's value of up to 4 KiB; keys with larger values are not remembered.
///
/// ```
/// use std::time::Duration;
/// use sqs_once::consumer::Cache;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// # #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// # async fn charge(order: OrderPlaced) {}
/// let cache = Cache::new(1000).expiring_after(Duration::from_secs(60));
/// let consumer = charge::consumer().cache(cache);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    keys: usize,
    expiry: Duration,
}

impl Cache {
    /// Creates a cache of at most `keys` keys, each remembered for 5 minutes. A builder with a cache of 0 keys fails at
    /// `init`.
    pub fn new(keys: usize) -> Self {
        Self {
            keys,
            expiry: DEFAULT_EXPIRY,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.keys == 0
    }

    /// Sets how long a key is remembered after the store was last asked about it. Default: 5 minutes.
    #[must_use]
    pub fn expiring_after(self, expiry: Duration) -> Self {
        Self { expiry, ..self }
    }
}

/// The cached completions of one consumer, shared by its clones and concurrent invocations.
pub(crate) struct CompletedKeys {
    limits: Cache,
    state: Mutex<State>,
}

struct State {
    entries: LruCache<ItemId, Entry>,
    /// The latest time of SQS's clock that a message shows, or zero. It is never compared with this machine's clock.
    sqs_time: Timestamp,
}

struct Entry {
    item: Item,
    kept_at: Timestamp,
    /// A time of SQS's clock before the request that showed the completion.
    asked_at: Timestamp,
}

impl CompletedKeys {
    pub(super) fn new(limits: Cache) -> Self {
        Self {
            limits,
            state: Mutex::new(State {
                // The map's own bound would reserve all memory at once.
                entries: LruCache::unbounded(),
                sqs_time: Timestamp::default(),
            }),
        }
    }

    /// Takes note of the times that a message shows. Returns when SQS received the message. A message that does not show it
    /// counts as the newest.
    pub(crate) fn note(&self, message: &Message) -> Timestamp {
        let sent_at = message.sent_at();
        let latest = sent_at.max(message.first_received_at());
        let mut state = self.state();
        state.sqs_time = state.sqs_time.max(latest.unwrap_or_default());
        sent_at.unwrap_or(Timestamp::from_millis(u64::MAX))
    }

    /// Returns a time of SQS's clock that has passed. A request to the store is sent after it.
    pub(super) fn sqs_time(&self) -> Timestamp {
        self.state().sqs_time
    }

    /// Returns the cached completion that refuses the claim for a message of this time, if any. If SQS may have received
    /// the message after the store was asked, an operator may have forgotten the key in between.
    pub(super) fn find(
        &self,
        claim: &Claim,
        sent_at: Timestamp,
        now: Timestamp,
    ) -> Option<Box<Item>> {
        let mut state = self.state();
        let Entry {
            item,
            kept_at,
            asked_at,
        } = state.entries.get(&claim.id)?;
        // Setting the clock back must not extend the entry.
        let is_fresh = *kept_at <= now && now.since(*kept_at) < self.limits.expiry;
        if is_fresh && sent_at <= *asked_at && !claim.finds_free(item) {
            return Some(Box::new(item.clone()));
        }
        state.entries.pop(&claim.id);
        None
    }

    /// Caches an item that the store has confirmed, if it is a completion. Otherwise drops an older completion. `asked_at`
    /// is [`sqs_time`](Self::sqs_time) before the request.
    pub(super) fn keep(&self, item: Item, asked_at: Timestamp, now: Timestamp) {
        let is_large = item.data.as_ref().is_some_and(|data| data.len() > MAX_DATA);
        let mut state = self.state();
        if item.status != Status::Completed || is_large {
            state.entries.pop(&item.id);
            return;
        }
        let entry = Entry {
            item,
            kept_at: now,
            asked_at,
        };
        state.entries.put(entry.item.id.clone(), entry);
        if state.entries.len() > self.limits.keys {
            state.entries.pop_lru();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
