//! The memory store, with trouble on request.

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;

use crate::key::ItemId;
use crate::store::{
    AtomicWrites, Claim, Claimed, Committed, Conflict, Item, MemoryStore, Settled, Settlement,
    Settling, Store, StoreError, StoreErrorKind, StoreFuture, TransactWriteItem, Writes,
};

/// What a consumer asks of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A key is claimed.
    Claim,
    /// An effect is recorded as done, or committed with its record.
    Complete,
    /// A claim is released after its handler failed.
    Release,
    /// A key is looked up, in the mode [`RecordAfter`](crate::policy::Mode::RecordAfter).
    Read,
}

/// A [`MemoryStore`] that counts requests and fails on demand. Clones share everything.
///
/// Of the [`Writes`] that handlers return it keeps a note, and takes their conditions for met unless it is told
/// otherwise: there are no tables that they could change.
///
/// ```
/// use sqs_once::store::StoreErrorKind;
/// use sqs_once::testing::{Bench, Event, Operation};
/// # use serde_json::{Value, json};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let consumer = sqs_once::consumer::<Value>()
/// #     .key(|order: &Value| order["order_id"].as_str().map(str::to_owned))
/// #     .handler(async |_: Value| {});
/// let bench = Bench::new(consumer);
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
}

#[derive(Debug, Default)]
struct State {
    requests: usize,
    faults: HashMap<Operation, Fault>,
    writes: Vec<TransactWriteItem>,
    /// How many more times the condition of the write at each place is not met.
    unmet: HashMap<usize, usize>,
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: StoreErrorKind,
    times: usize,
    /// Whether the work is done all the same, and only the answer is lost.
    is_done: bool,
}

impl TestStore {
    /// Makes the next `times` requests with such an operation fail, undone. A request carries the
    /// operations of many records; `usize::MAX` stands for all requests from now on, 0 for none.
    ///
    /// Kinds that are [transient](StoreError::is_transient) are asked for again by the consumer.
    pub fn fail(&self, operation: Operation, kind: StoreErrorKind, times: usize) {
        self.put(operation, kind, times, false);
    }

    /// Makes the next `times` requests with such an operation lose their answer: the store does what
    /// it is asked, and the consumer never hears of it.
    pub fn lose_answers(&self, operation: Operation, times: usize) {
        self.put(operation, StoreErrorKind::Unanswered, times, true);
    }

    /// Makes the condition of a handler's write not be met in the next `times` commits with such a write: the one at
    /// this place among its [`Writes`], counted from 0. It shows no item to
    /// [`on_conflict`](Writes::on_conflict). A duplicate is a duplicate all the same.
    #[cfg(feature = "dynamodb")]
    pub fn fail_condition(&self, write: usize, times: usize) {
        self.state().unmet.insert(write, times);
    }

    /// The writes that were committed so far, in order.
    #[cfg(feature = "dynamodb")]
    pub fn writes(&self) -> Vec<TransactWriteItem> {
        self.state().writes.clone()
    }

    /// How many requests there were so far, failed ones included.
    pub fn requests(&self) -> usize {
        self.state().requests
    }

    /// What lies under the trouble: the items, to look at and to change.
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    fn put(&self, operation: Operation, kind: StoreErrorKind, times: usize, is_done: bool) {
        let fault = Fault {
            kind,
            times,
            is_done,
        };
        self.state().faults.insert(operation, fault);
    }

    /// Counts a request, and gives the fault of each operation that it carries.
    fn faults(&self, operations: &[Operation]) -> HashMap<Operation, Fault> {
        let mut state = self.state();
        state.requests += 1;
        let mut faults = HashMap::new();
        for operation in operations {
            if faults.contains_key(operation) {
                continue;
            }
            if let Some(fault) = state
                .faults
                .get_mut(operation)
                .filter(|fault| fault.times > 0)
            {
                fault.times -= 1;
                faults.insert(*operation, *fault);
            }
        }
        faults
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The write whose condition is not met, where there is one.
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
        StoreError::new(self.kind, "as the test wants it")
    }
}

fn of(settlement: &Settlement) -> Operation {
    match settlement.settling {
        Settling::Complete { .. } | Settling::Record(_) | Settling::Commit(_) => {
            Operation::Complete
        }
        Settling::Release => Operation::Release,
    }
}

impl AtomicWrites for TestStore {
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        let fault = self.faults(&[Operation::Complete]);
        let fault = fault.get(&Operation::Complete).copied();
        Box::pin(async move {
            match fault {
                None => self.commit_all(settlement, writes).await,
                Some(fault) => {
                    if fault.is_done {
                        self.commit_all(settlement, writes).await?;
                    }
                    Err(fault.error())
                }
            }
        })
    }
}

impl TestStore {
    async fn commit_all(
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
            // Only an item refuses a commit.
            _ => Err(StoreError::new(StoreErrorKind::Other, "it is no commit")),
        }
    }
}

impl Store for TestStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        let faults = self.faults(&[Operation::Claim]);
        Box::pin(async move {
            let Some(fault) = faults.get(&Operation::Claim) else {
                return self.memory.claim(claims).await;
            };
            if fault.is_done {
                self.memory.claim(claims).await;
            }
            claims.iter().map(|_| Err(fault.error())).collect()
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let operations: Vec<_> = settlements.iter().map(of).collect();
        let faults = self.faults(&operations);
        Box::pin(async move {
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
        let faults = self.faults(&[Operation::Read]);
        Box::pin(async move {
            match faults.get(&Operation::Read) {
                None => self.memory.read(ids).await,
                Some(fault) => ids.iter().map(|_| Err(fault.error())).collect(),
            }
        })
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}
