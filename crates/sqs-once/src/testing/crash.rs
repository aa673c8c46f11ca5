//! A process that dies when it records its first effect.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::key::ItemId;
use crate::store::{
    AtomicWrites, Claim, Claimed, CommitFuture, Committed, Item, Settled, Settlement, Settling,
    Store, StoreFuture, Writes,
};

use super::TestStore;

/// The store of a process that dies before its first completion arrives.
#[derive(Clone)]
pub(super) struct Doomed {
    store: TestStore,
    is_dead: Arc<AtomicBool>,
    died: Arc<Notify>,
}

impl Doomed {
    pub(super) fn new(store: TestStore) -> Self {
        Self {
            store,
            is_dead: Arc::default(),
            died: Arc::default(),
        }
    }

    pub(super) async fn died(&self) {
        self.died.notified().await;
    }

    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
        self.died.notify_one();
    }

    /// Waits forever if the process is dead, so that none of its requests reaches the store.
    async fn alive(&self) {
        if self.is_dead.load(Ordering::SeqCst) {
            pending().await
        }
    }
}

impl Store for Doomed {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            self.alive().await;
            self.store.claim(claims).await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let is_release = |one: &Settlement| one.settling == Settling::Release;
            if !settlements.iter().all(is_release) {
                self.die();
            }
            self.alive().await;
            self.store.settle(settlements).await
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            self.alive().await;
            self.store.read(ids).await
        })
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}

impl AtomicWrites for Doomed {
    fn commit<'a>(&'a self, _: &'a Settlement, _: &'a Writes) -> CommitFuture<'a> {
        self.die();
        Box::pin(pending())
    }

    fn commit_all<'a>(
        &'a self,
        _: &'a [(&'a Settlement, &'a Writes)],
    ) -> StoreFuture<'a, Committed> {
        self.die();
        Box::pin(pending())
    }
}
