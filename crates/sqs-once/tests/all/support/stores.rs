//! The test kit's store with a record of each request, whose requests may take time and whose entries may be refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqs_once::key::ItemId;
use sqs_once::store::{
    AtomicWrites, Claim, Claimed, Committed, Item, MemoryStore, Settled, Settlement, Status, Store,
    StoreError, StoreErrorKind, StoreFuture, Timestamp,
};
use sqs_once::testing::{self, Operation};
use sqs_once::{BusinessKey, Writes};
use tokio::time::sleep;

use super::{Notes, SECOND, item_id};

type Time<E> = dyn Fn(&[E]) -> Duration + Send + Sync;
type Refuses<E> = dyn Fn(&E) -> Option<StoreError> + Send + Sync;
type Answers<E> = dyn Fn(&[E]) -> Result<Duration, StoreErrorKind> + Send + Sync;

/// The treatment of one kind of request.
#[derive(Clone)]
struct Treatment<E> {
    time: Arc<Time<E>>,
    refuses: Arc<Refuses<E>>,
    /// How long the answer takes once the request is carried out, or how it is lost.
    answers: Arc<Answers<E>>,
}

impl<E> Default for Treatment<E> {
    fn default() -> Self {
        Self {
            time: Arc::new(|_| Duration::ZERO),
            refuses: Arc::new(|_| None),
            answers: Arc::new(|_| Ok(Duration::ZERO)),
        }
    }
}

impl<E: Clone> Treatment<E> {
    /// Returns the entries that are not refused, after the request's time.
    async fn pass(&self, time: Duration, entries: &[E]) -> Vec<E> {
        if !time.is_zero() {
            sleep(time).await;
        }
        let passing = entries.iter().filter(|one| (self.refuses)(one).is_none());
        passing.cloned().collect()
    }

    /// Puts the errors of refused entries between the answers to the others, which may be late or lost.
    async fn answers<A>(
        &self,
        entries: &[E],
        answers: Vec<Result<A, StoreError>>,
    ) -> Vec<Result<A, StoreError>> {
        match (self.answers)(entries) {
            Ok(Duration::ZERO) => {}
            Ok(time) => sleep(time).await,
            Err(kind) => {
                let lost = |_: &_| Err(StoreError::new(kind, "lost"));
                return entries.iter().map(lost).collect();
            }
        }
        let mut answers = answers.into_iter();
        let all = entries.iter().filter_map(|one| match (self.refuses)(one) {
            Some(error) => Some(Err(error)),
            None => answers.next(),
        });
        all.collect()
    }
}

/// A store of the kit with a treatment and a record of its own. Clones share everything.
#[derive(Clone)]
pub(crate) struct TestStore {
    pub(crate) inner: MemoryStore,
    kit: testing::TestStore,
    calls: Notes<(&'static str, usize)>,
    commits: Notes<Settlement>,
    treatments: Arc<Mutex<Treatments>>,
    name: Option<&'static str>,
}

#[derive(Default)]
struct Treatments {
    claims: Treatment<Claim>,
    settlements: Treatment<Settlement>,
    reads: Treatment<ItemId>,
}

impl Default for TestStore {
    fn default() -> Self {
        Self::over(testing::TestStore::default())
    }
}

impl TestStore {
    /// Another treatment and record of this store.
    pub(crate) fn over(kit: testing::TestStore) -> Self {
        Self {
            inner: kit.memory().clone(),
            kit,
            calls: Notes::default(),
            commits: Notes::default(),
            treatments: Arc::default(),
            name: None,
        }
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    fn set(&self, set: impl FnOnce(&mut Treatments)) -> Self {
        set(&mut self.treatments.lock().unwrap());
        self.clone()
    }

    pub(crate) fn silent(&self) -> Self {
        self.claims_take(|_| Duration::MAX);
        self.settlements_take(|_| Duration::MAX);
        self.reads_take(|_| Duration::MAX)
    }

    pub(crate) fn claims_take(
        &self,
        time: impl Fn(&[Claim]) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.set(|all| all.claims.time = Arc::new(time))
    }

    pub(crate) fn settlements_take(
        &self,
        time: impl Fn(&[Settlement]) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.set(|all| all.settlements.time = Arc::new(time))
    }

    pub(crate) fn reads_take(
        &self,
        time: impl Fn(&[ItemId]) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.set(|all| all.reads.time = Arc::new(time))
    }

    /// Carries each request out after this time, and answers after as much again.
    pub(crate) fn each_way_takes(&self, time: Duration) -> Self {
        self.claims_take(move |_| time);
        self.settlements_take(move |_| time);
        self.reads_take(move |_| time);
        self.set(|all| {
            all.claims.answers = Arc::new(move |_| Ok(time));
            all.settlements.answers = Arc::new(move |_| Ok(time));
            all.reads.answers = Arc::new(move |_| Ok(time));
        })
    }

    /// Carries claims out, and answers after this time, or with this error.
    pub(crate) fn claims_answered(
        &self,
        answers: impl Fn(&[Claim]) -> Result<Duration, StoreErrorKind> + Send + Sync + 'static,
    ) -> Self {
        self.set(|all| all.claims.answers = Arc::new(answers))
    }

    /// Carries this kind of request out, and answers a second later.
    pub(crate) fn late(&self, request: &str) -> Self {
        self.set(|all| match request {
            "claim" => all.claims.answers = Arc::new(|_| Ok(SECOND)),
            "settle" => all.settlements.answers = Arc::new(|_| Ok(SECOND)),
            _ => all.reads.answers = Arc::new(|_| Ok(SECOND)),
        })
    }

    pub(crate) fn refusing_claims(
        &self,
        refuses: impl Fn(&Claim) -> Option<StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.set(|all| all.claims.refuses = Arc::new(refuses))
    }

    pub(crate) fn refusing_settlements(
        &self,
        refuses: impl Fn(&Settlement) -> Option<StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.set(|all| all.settlements.refuses = Arc::new(refuses))
    }

    /// Makes the next `times` calls of `claim`, `settle`, `commit` or `read` fail.
    pub(crate) fn fail(&self, call: &'static str, kind: StoreErrorKind, times: usize) {
        for operation in operations(call) {
            self.kit.fail(*operation, kind, times);
        }
    }

    pub(crate) fn lose_answer(&self, call: &'static str, times: usize) {
        for operation in operations(call) {
            self.kit.lose_answers(*operation, times);
        }
    }

    pub(crate) fn always_fails(&self, call: &'static str, kind: StoreErrorKind) {
        self.fail(call, kind, usize::MAX);
    }

    pub(crate) fn fail_condition(&self, write: usize, times: usize) {
        self.kit.fail_condition(write, times);
    }

    /// The tables of the committed writes, in order.
    pub(crate) fn written(&self) -> Vec<String> {
        let writes = self.kit.writes().into_iter();
        let tables = writes.map(|write| write.update().unwrap().table_name().to_owned());
        tables.collect()
    }

    pub(crate) fn take_commits(&self) -> Vec<Settlement> {
        self.commits.take()
    }

    pub(crate) fn item(&self, id: &str) -> Option<Item> {
        self.inner.get(&item_id(&BusinessKey::new(id).unwrap()))
    }

    pub(crate) fn get(&self, id: &ItemId) -> Option<Item> {
        self.inner.get(id)
    }

    pub(crate) fn change(&self, id: &str, change: impl FnOnce(&mut Item)) {
        let mut item = self.item(id).unwrap();
        change(&mut item);
        self.inner.put(item);
    }

    pub(crate) fn is_released(&self, id: &str) -> bool {
        let item = self.item(id).unwrap();
        item.status == Status::InProgress && item.lease_until == Some(Timestamp::default())
    }

    /// The requests since the previous call, as (call, entries).
    pub(crate) fn take_calls(&self) -> Vec<(&'static str, usize)> {
        self.calls.take()
    }

    pub(crate) fn note(&self, call: &'static str, entries: usize) {
        self.calls.add((call, entries));
    }
}

fn operations(call: &str) -> &'static [Operation] {
    match call {
        "claim" => &[Operation::Claim],
        "settle" | "commit" => &[Operation::Complete, Operation::Release],
        "read" => &[Operation::Read],
        _ => panic!("the store has no call {call:?}"),
    }
}

impl Store for TestStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        let treatment = self.treatments.lock().unwrap().claims.clone();
        let time = (treatment.time)(claims);
        Box::pin(async move {
            let passing = treatment.pass(time, claims).await;
            self.note("claim", passing.len());
            let answers = self.kit.claim(&passing).await;
            treatment.answers(claims, answers).await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let treatment = self.treatments.lock().unwrap().settlements.clone();
        let time = (treatment.time)(settlements);
        Box::pin(async move {
            let passing = treatment.pass(time, settlements).await;
            self.note("settle", passing.len());
            let answers = self.kit.settle(&passing).await;
            treatment.answers(settlements, answers).await
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        let treatment = self.treatments.lock().unwrap().reads.clone();
        let time = (treatment.time)(ids);
        Box::pin(async move {
            let passing = treatment.pass(time, ids).await;
            self.note("read", passing.len());
            let answers = self.kit.read(&passing).await;
            treatment.answers(ids, answers).await
        })
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }

    fn identity(&self) -> Option<String> {
        self.name.map(str::to_owned)
    }
}

impl AtomicWrites for TestStore {
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        self.note("commit", writes.len());
        self.commits.add(settlement.clone());
        AtomicWrites::commit(&self.kit, settlement, writes)
    }

    fn commit_all<'a>(
        &'a self,
        commits: &'a [(&'a Settlement, &'a Writes)],
    ) -> StoreFuture<'a, Committed> {
        self.note("commit_all", commits.len());
        let settlements = commits.iter().map(|(settlement, _)| (*settlement).clone());
        settlements.for_each(|settlement| self.commits.add(settlement));
        self.kit.commit_all(commits)
    }
}
