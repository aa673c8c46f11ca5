//! Stores without a table: in this process's memory, and one that keeps nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::warn;

use crate::env::process_env;
use crate::key::ItemId;

use super::{Claim, Claimed, Fence, Item, Settled, Settlement, Store, StoreFuture};

/// A store in memory, for tests. Its items are lost when the process ends. Clones share their items.
///
/// ```
/// use sqs_once::store::MemoryStore;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// # #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// # async fn charge(order: OrderPlaced) {}
/// let consumer = charge::consumer().store(MemoryStore::new());
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    items: Arc<Mutex<HashMap<ItemId, Item>>>,
}

impl MemoryStore {
    /// Creates an empty store. On Lambda, it logs a warning: every environment would have keys of its own.
    pub fn new() -> Self {
        if process_env("AWS_LAMBDA_FUNCTION_NAME").is_some() {
            warn!(
                "a MemoryStore is for tests: each environment of this function has its own, and forgets its keys when it ends"
            );
        }
        Self {
            items: Arc::default(),
        }
    }

    /// Returns the item with this id.
    pub fn get(&self, id: &ItemId) -> Option<Item> {
        self.items().get(id).cloned()
    }

    /// Puts an item without a condition.
    pub fn put(&self, item: Item) {
        self.items().insert(item.id.clone(), item);
    }

    /// Deletes an item, as DynamoDB does with an expired one.
    pub fn remove(&self, id: &ItemId) {
        self.items().remove(id);
    }

    fn items(&self) -> MutexGuard<'_, HashMap<ItemId, Item>> {
        // No write can panic halfway while the lock is held, so the items are consistent.
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let mut items = self.items();
            let claim = |claim: &Claim| {
                let existing = items.get(&claim.id);
                if let Some(item) = existing.filter(|item| !claim.admitted_by(Some(item))) {
                    return Ok(Claimed::Refused(Box::new(item.clone())));
                }
                let item = claim.write(existing);
                let fence = item.fence.unwrap_or_default();
                items.insert(item.id.clone(), item);
                Ok(Claimed::Written { fence })
            };
            claims.iter().map(claim).collect()
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let mut items = self.items();
            let settle = |settlement: &Settlement| {
                let existing = items.get(&settlement.id);
                if !settlement.admitted_by(existing) {
                    return Ok(Settled::Refused(existing.cloned().map(Box::new)));
                }
                let item = settlement.write(existing);
                items.insert(item.id.clone(), item);
                Ok(Settled::Written)
            };
            settlements.iter().map(settle).collect()
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move { ids.iter().map(|id| Ok(self.get(id))).collect() })
    }
}

/// Grants every claim and stores nothing (`SQS_ONCE_DISABLED`).
pub(crate) struct OffStore;

impl Store for OffStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let granted = |claim: &Claim| {
                Ok(Claimed::Written {
                    fence: Fence::first(claim.now),
                })
            };
            claims.iter().map(granted).collect()
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move { settlements.iter().map(|_| Ok(Settled::Written)).collect() })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move { ids.iter().map(|_| Ok(None)).collect() })
    }
}
