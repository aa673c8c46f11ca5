//! A memory store that fails on demand.

use std::collections::HashMap;
use std::future::pending;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::key::ItemId;
use crate::store::{
    AtomicWrites, Claim, Claimed, CommitFuture, Committed, Conflict, Item, MemoryStore, Settled,
    Settlement, Settling, Store, StoreError, StoreErrorKind, StoreFuture, TransactWriteItem,
    Writes,
};

/// The operations of a consumer on its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Claims a key.
    Claim,
    /// Completes a key after its effect, or commits the effect with the completion.
    Complete,
    /// Releases a claim after its handler failed.
    Release,
    /// Makes the lease of a claim longer, because its code still runs.
    Renew,
    /// Looks a key up, for a handler that is [`RecordAfter`](crate::handler::RecordAfter).
    Read,
}

/// A [`MemoryStore`] that counts requests and fails on demand. Clones share everything.
///
/// It keeps a list of the [`Writes`] that handlers return, but has no tables that they could change. Their conditions
/// count as met, except after [`fail_condition`](Self::fail_condition).
///
/// ```
/// use serde_json::json;
/// use sqs_once::store::StoreErrorKind;
/// use sqs_once::testing::{Bench, Event, Operation};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let handler = sqs_once::Handler::json::<serde_json::Value>()
/// #     .key(|order: &serde_json::Value| order["order_id"].as_str().map(str::to_owned))
/// #     .call(async |_: serde_json::Value| {});
/// let bench = Bench::new(handler);
/// let event = Event::new([&json!({ "order_id": "o-1001" })]);
///
/// bench.store().fail(Operation::Claim, StoreErrorKind::AccessDenied, 1);
/// bench.run(&event).await
///     .assert_failed("m-1")
///     .assert_reason("m-1", "the store denies access");
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TestStore {
    memory: MemoryStore,
    state: Arc<Mutex<State>>,
    /// The end of the process that has this clone.
    death: Option<Arc<Death>>,
}

/// A process that dies before its first completion arrives.
#[derive(Debug, Default)]
pub(super) struct Death {
    is_dead: AtomicBool,
    died: Notify,
}

impl Death {
    /// Waits until the process dies.
    pub(super) async fn comes(&self) {
        self.died.notified().await;
    }
}

#[derive(Debug, Default)]
struct State {
    requests: usize,
    faults: HashMap<Operation, Fault>,
    writes: Vec<TransactWriteItem>,
    /// How often the condition of the write with this index will still fail.
    unmet: HashMap<usize, usize>,
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: StoreErrorKind,
    times: usize,
    /// Whether the store carries the request out and only its answer is lost.
    is_done: bool,
}

impl TestStore {
    /// Makes the next `times` requests with this operation fail without effect. A request may contain the operations of
    /// many messages. `usize::MAX` means all requests from now on, and 0 none.
    ///
    /// The consumer retries requests after [transient](StoreError::is_transient) errors.
    pub fn fail(&self, operation: Operation, kind: StoreErrorKind, times: usize) {
        self.put(operation, kind, times, false);
    }

    /// Makes the next `times` requests with this operation lose their answer: the store carries them out, but the
    /// consumer gets an error.
    pub fn lose_answers(&self, operation: Operation, times: usize) {
        self.put(operation, StoreErrorKind::Unanswered, times, true);
    }

    /// Makes the condition of a write fail in the next `times` commits that have this write. `write` is its index in
    /// the handler's [`Writes`], counted from 0. [`on_conflict`](Writes::on_conflict) gets no item. Duplicates are
    /// still recognised.
    #[cfg(feature = "dynamodb")]
    pub fn fail_condition(&self, write: usize, times: usize) {
        self.state().unmet.insert(write, times);
    }

    /// Returns the writes that were committed so far, in order.
    #[cfg(feature = "dynamodb")]
    pub fn writes(&self) -> Vec<TransactWriteItem> {
        self.state().writes.clone()
    }

    /// Returns the number of requests so far, including failed ones.
    pub fn requests(&self) -> usize {
        self.state().requests
    }

    /// Returns the store without the failures, to read and change its items.
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// Returns the store of a process that dies this death.
    pub(super) fn until(&self, death: &Arc<Death>) -> Self {
        Self {
            death: Some(Arc::clone(death)),
            ..self.clone()
        }
    }

    /// Waits forever if the process is dead or dies of this request, so that none reaches the store any more.
    async fn alive(&self, is_fatal: bool) {
        let Some(death) = &self.death else { return };
        if is_fatal {
            death.is_dead.store(true, Ordering::SeqCst);
            death.died.notify_one();
        }
        if death.is_dead.load(Ordering::SeqCst) {
            pending().await
        }
    }

    fn put(&self, operation: Operation, kind: StoreErrorKind, times: usize, is_done: bool) {
        let fault = Fault {
            kind,
            times,
            is_done,
        };
        self.state().faults.insert(operation, fault);
    }

    /// Counts a request, and returns the fault of each operation in it.
    fn faults(&self, operations: &[Operation]) -> HashMap<Operation, Fault> {
        let mut state = self.state();
        state.requests += 1;
        let faults = state.faults.iter_mut();
        let faults = faults.filter(|(one, fault)| operations.contains(one) && fault.times > 0);
        let used = faults.map(|(operation, fault)| {
            fault.times -= 1;
            (*operation, *fault)
        });
        used.collect()
    }

    /// Sends a request with this one operation to the store, unless the operation has a fault.
    fn send<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        entries: usize,
        request: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.alive(false).await;
            let Some(fault) = self.faults(&[operation]).remove(&operation) else {
                return request.await;
            };
            if fault.is_done {
                request.await;
            }
            (0..entries).map(|_| Err(fault.error())).collect()
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn conflict(&mut self, writes: &Writes) -> Option<Conflict> {
        let mut unmet = Vec::new();
        for (write, times) in &mut self.unmet {
            if *write < writes.len() && *times > 0 {
                *times -= 1;
                unmet.push(*write);
            }
        }
        writes.conflict(&unmet)
    }
}

impl Fault {
    fn error(self) -> StoreError {
        StoreError::new(self.kind, "injected by the test")
    }
}

fn of(settlement: &Settlement) -> Operation {
    match settlement.settling {
        Settling::Complete { .. } | Settling::CompleteUnclaimed(_) | Settling::Commit(_) => {
            Operation::Complete
        }
        Settling::Release => Operation::Release,
        Settling::Renew { .. } => Operation::Renew,
    }
}

impl AtomicWrites for TestStore {
    fn commit<'a>(&'a self, settlement: &'a Settlement, writes: &'a Writes) -> CommitFuture<'a> {
        Box::pin(async move {
            let mut answers = self.commit_all(&[(settlement, writes)]).await;
            answers.pop().unwrap_or_else(|| Err(not_a_commit()))
        })
    }

    /// Counts as one request, however many fit in a transaction of DynamoDB.
    fn commit_all<'a>(
        &'a self,
        commits: &'a [(&'a Settlement, &'a Writes)],
    ) -> StoreFuture<'a, Committed> {
        Box::pin(async move {
            self.alive(true).await;
            let mut faults = self.faults(&[Operation::Complete]);
            let fault = faults.remove(&Operation::Complete);
            let mut answers = Vec::with_capacity(commits.len());
            for (settlement, writes) in commits {
                let answer = match fault {
                    Some(fault) if !fault.is_done => Err(fault.error()),
                    _ => self.commit_one(settlement, writes).await,
                };
                answers.push(match fault {
                    Some(fault) => answer.and(Err(fault.error())),
                    None => answer,
                });
            }
            answers
        })
    }
}

impl TestStore {
    async fn commit_one(
        &self,
        settlement: &Settlement,
        writes: &Writes,
    ) -> Result<Committed, StoreError> {
        let existing = self.memory.get(&settlement.id);
        if settlement.admitted_by(existing.as_ref())
            && let Some(conflict) = self.state().conflict(writes)
        {
            return Ok(Committed::Conflict(Box::new(conflict)));
        }
        let settled = self.memory.settle(slice::from_ref(settlement)).await.pop();
        match settled {
            Some(Ok(Settled::Written)) => {
                self.state().writes.extend_from_slice(writes.items());
                Ok(Committed::Written)
            }
            Some(Ok(Settled::Refused(Some(item)))) => Ok(Committed::Refused(item)),
            // Unreachable for a commit: only an item refuses it.
            _ => Err(not_a_commit()),
        }
    }
}

fn not_a_commit() -> StoreError {
    StoreError::new(StoreErrorKind::Other, "it is not a commit")
}

impl Store for TestStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.send(Operation::Claim, claims.len(), self.memory.claim(claims))
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let operations: Vec<_> = settlements.iter().map(of).collect();
        Box::pin(async move {
            let is_fatal = operations.iter().any(|one| *one != Operation::Release);
            self.alive(is_fatal).await;
            let faults = self.faults(&operations);
            let mut answers = Vec::with_capacity(settlements.len());
            for (settlement, operation) in settlements.iter().zip(operations) {
                let fault = faults.get(&operation);
                let answer = match fault {
                    Some(fault) if !fault.is_done => Vec::new(),
                    _ => self.memory.settle(slice::from_ref(settlement)).await,
                };
                match fault {
                    Some(fault) => answers.push(Err(fault.error())),
                    None => answers.extend(answer),
                }
            }
            answers
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.send(Operation::Read, ids.len(), self.memory.read(ids))
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}
