//! An in-memory database with faults on request. A transaction holds its key from its claim to its end, and its effects
//! happen at the commit.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqs_once::consumer::{Named, One, Runnable};
use sqs_once::extract::{BatchParts, FromBatch, FromRecord, RecordParts};
use sqs_once::key::ItemId;
use sqs_once::store::{
    AtomicWrites, Begun, Claim, Claimed, FromTransaction, Item, OpenTransaction, Settled,
    Settlement, Settling, Status, Store, StoreError, StoreErrorKind, StoreFuture, Transactions,
};
use sqs_once::{Consumer, Handler, HandlerError};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout};

use super::{AtOnce, Bench, Counted, Notes, TestStore, Tested, Turns, item_id};

/// The fate of a request.
#[derive(Clone, Debug, Default)]
pub(crate) enum Turn {
    #[default]
    Do,
    /// The database does not execute it.
    Fail(StoreErrorKind),
    /// The database executes it, but the answer is lost.
    LoseAnswer,
    /// The database executes it after this time.
    Delay(Duration),
    Hang,
}

#[derive(Clone, Default)]
pub(crate) struct Database {
    store: TestStore,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    keys: Mutex<HashMap<ItemId, Arc<tokio::sync::Mutex<()>>>>,
    effects: Notes<String>,
    begins: Mutex<Turns<Turn>>,
    commits: Mutex<Turns<Turn>>,
    connections: AtOnce,
}

/// Waits or fails as the turn requests.
async fn take(turn: &Turn) -> Result<(), StoreError> {
    match turn {
        Turn::Do | Turn::LoseAnswer => {}
        Turn::Fail(kind) => return Err(StoreError::new(*kind, "injected by the test")),
        Turn::Delay(time) => sleep(*time).await,
        Turn::Hang => std::future::pending().await,
    }
    Ok(())
}

impl Database {
    /// A database with the items of `store`.
    pub(crate) fn beside(store: &TestStore) -> Self {
        Self {
            store: store.clone(),
            shared: Arc::default(),
        }
    }

    pub(crate) fn begins(&self, turns: impl IntoIterator<Item = Turn>) {
        self.shared.begins.lock().unwrap().next.extend(turns);
    }

    pub(crate) fn commits(&self, turns: impl IntoIterator<Item = Turn>) {
        self.shared.commits.lock().unwrap().next.extend(turns);
    }

    pub(crate) fn begins_always(&self, turn: Turn) {
        self.shared.begins.lock().unwrap().then = turn;
    }

    pub(crate) fn commits_always(&self, turn: Turn) {
        self.shared.commits.lock().unwrap().then = turn;
    }

    /// The writes of committed transactions, in order.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.shared.effects.all()
    }

    /// The number of open transactions, including those about to begin.
    pub(crate) fn open(&self) -> usize {
        self.shared.connections.now()
    }

    pub(crate) fn most_open(&self) -> usize {
        self.shared.connections.most()
    }

    /// Holds a key as another worker's transaction would, until the guard is dropped.
    pub(crate) async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        let key = sqs_once::BusinessKey::new(key).unwrap();
        self.key(&item_id(&key)).lock_owned().await
    }

    fn key(&self, id: &ItemId) -> Arc<tokio::sync::Mutex<()>> {
        let mut keys = self.shared.keys.lock().unwrap();
        Arc::clone(keys.entry(id.clone()).or_default())
    }
}

/// A consumer whose handler writes into a database, and what its calls received.
pub(crate) struct Booking<Kind = One, T = String> {
    pub(crate) bench: Tested<Kind>,
    pub(crate) database: Database,
    pub(crate) seen: Notes<T>,
}

impl<Kind, T> Deref for Booking<Kind, T> {
    type Target = Tested<Kind>;

    fn deref(&self) -> &Tested<Kind> {
        &self.bench
    }
}

impl<Kind: Named + Clone, T> Booking<Kind, T>
where
    Handler<Kind>: Runnable,
{
    /// This handler, which notes its calls here, on a new bench.
    pub(crate) fn on(handler: Handler<Kind>, seen: Notes<T>) -> Self {
        let bench = Bench::new();
        let database = Database::beside(&bench.store);
        Self {
            bench: bench
                .on(handler)
                .with_consumer(|it| it.store(database.clone())),
            database,
            seen,
        }
    }

    pub(crate) fn with_consumer(self, settings: impl FnOnce(Consumer) -> Consumer) -> Self {
        Self {
            bench: self.bench.with_consumer(settings),
            ..self
        }
    }
}

impl Store for Database {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.store.claim(claims)
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.store.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.store.read(ids)
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        self.store.atomic_writes()
    }

    fn transactions(&self) -> Option<&dyn Transactions> {
        Some(self)
    }
}

impl Transactions for Database {
    fn begin<'a>(
        &'a self,
        claims: &'a [Claim],
        patience: Duration,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>> {
        self.store.note("begin", claims.len());
        let until = Instant::now() + limit;
        let turn = self.shared.begins.lock().unwrap().take();
        let connection = self.shared.connections.enter();
        Box::pin(async move {
            take(&turn).await?;
            let (mut answers, mut items, mut locks) = (Vec::new(), Vec::new(), Vec::new());
            for claim in claims {
                let locked = timeout(patience, self.key(&claim.id).lock_owned()).await;
                let Ok(locked) = locked else {
                    if let [_] = claims {
                        return Err(StoreError::new(StoreErrorKind::Throttled, "lock timeout"));
                    }
                    let item = Item::new(claim.id.clone(), Status::InProgress);
                    answers.push(Ok(Claimed::Refused(Box::new(item))));
                    continue;
                };
                let existing = self.store.inner.get(&claim.id);
                if let Some(item) = existing.as_ref().filter(|item| !claim.finds_free(item)) {
                    answers.push(Ok(Claimed::Refused(Box::new(item.clone()))));
                    continue;
                }
                let item = claim.write(existing.as_ref());
                let fence = item.fence.unwrap();
                answers.push(Ok(Claimed::Written { fence }));
                items.push(item);
                locks.push(locked);
            }
            let transaction = (!items.is_empty()).then(|| {
                Box::new(Transaction {
                    database: self.clone(),
                    items,
                    work: Arc::new(Mutex::new(Some(Vec::new()))),
                    until,
                    _locks: locks,
                    _connection: connection,
                }) as _
            });
            Ok(Begun::new(answers, transaction))
        })
    }
}

/// The transaction's writes so far. `None` after the handler has ended the transaction itself.
type Work = Mutex<Option<Vec<String>>>;

struct Transaction {
    database: Database,
    items: Vec<Item>,
    work: Arc<Work>,
    until: Instant,
    _locks: Vec<OwnedMutexGuard<()>>,
    _connection: Counted,
}

impl OpenTransaction for Transaction {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        let work: Arc<Work> = Arc::clone(&self.work);
        work
    }

    fn commit(
        self: Box<Self>,
        settlements: Vec<Settlement>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.database.store.note("commit", settlements.len());
        let turn = self.database.shared.commits.lock().unwrap().take();
        Box::pin(async move {
            take(&turn).await?;
            if Instant::now() > self.until {
                let message = "the transaction took too long";
                return Err(StoreError::new(StoreErrorKind::Other, message));
            }
            let work = self.work.lock().unwrap().take();
            let own = |settlement: &Settlement| {
                let item = self.items.iter().find(|item| item.id == settlement.id);
                settlement.admitted_by(item)
            };
            let Some(work) = work.filter(|_| settlements.iter().all(own)) else {
                let message = "the claim is not in the transaction";
                return Err(StoreError::new(StoreErrorKind::Other, message));
            };
            work.into_iter()
                .for_each(|effect| self.database.shared.effects.add(effect));
            for item in self.items {
                let settlement = settlements.iter().find(|one| one.id == item.id);
                let released =
                    || Settlement::new(item.id.clone(), item.owner.unwrap(), Settling::Release);
                let settlement = settlement.cloned().unwrap_or_else(released);
                self.database.store.inner.put(settlement.write(Some(&item)));
            }
            match turn {
                Turn::LoseAnswer => Err(StoreError::new(StoreErrorKind::Unanswered, "lost")),
                _ => Ok(()),
            }
        })
    }
}

/// The access of a handler, or of work, to its transaction.
pub(crate) struct Ledger(Arc<Work>);

impl Ledger {
    /// Adds a write, which takes effect if the transaction commits.
    pub(crate) fn write(&self, what: &str) {
        let mut work = self.0.lock().unwrap();
        work.as_mut().unwrap().push(what.to_owned());
    }

    /// Ends the transaction, which a handler must not do.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap().take();
    }
}

impl<S: Sync> FromRecord<S> for Ledger {
    const TRANSACTION: bool = true;

    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        let ledger = parts.transaction().and_then(Self::from_transaction);
        Ok(ledger.ok_or("there is no transaction")?)
    }
}

impl<S: Sync> FromBatch<S> for Ledger {
    const TRANSACTION: bool = true;

    async fn from_batch(parts: &BatchParts<S>) -> Result<Self, HandlerError> {
        let ledger = parts.transaction().and_then(Self::from_transaction);
        Ok(ledger.ok_or("there is no transaction")?)
    }
}

impl FromTransaction for Ledger {
    fn from_transaction(handle: Arc<dyn Any + Send + Sync>) -> Option<Self> {
        handle.downcast().map(Self).ok()
    }
}
