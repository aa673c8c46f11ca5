//! A consumer under test.

use std::borrow::Borrow;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lambda_runtime::Context;

use crate::consumer::Consumer;
use crate::error::ConfigError;
use crate::idempotency::{CommitsWith, Driver};
use crate::key::{BusinessKey, ItemId, KeyPart};
use crate::lambda::EventError;
use crate::random::Random;
use crate::store::{Claim, Item};
use crate::time::{Clock, Timestamp};

use super::crash::Doomed;
use super::{Answer, Event, TestClock, TestStore};

/// How long an invocation may take by default.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a consumer in memory, by the code that Lambda runs: on a store of its own, on a clock that the
/// test moves, and without a queue. A dead-letter queue takes what it is sent, unless the consumer has
/// a client of its own for it.
///
/// What neither code nor bench sets comes from the environment and the defaults, as in Lambda. Chance
/// is the same in every run.
#[derive(Debug)]
pub struct Bench {
    consumer: Consumer,
    store: TestStore,
    clock: TestClock,
    chance: Counter,
    timeout: Duration,
}

impl Bench {
    /// Puts a consumer on the bench, in place of its store and its clock.
    #[must_use]
    pub fn new(consumer: Consumer) -> Self {
        let bench = Self {
            consumer: consumer.clone(),
            store: TestStore::default(),
            clock: TestClock::new(),
            chance: Counter::default(),
            timeout: TIMEOUT,
        };
        bench.beside(consumer)
    }

    /// Another process with the same table and the same time: a second worker, the next version of the
    /// consumer, or another consumer that shares the table.
    #[must_use]
    pub fn beside(&self, consumer: Consumer) -> Self {
        let (store, clock, chance) = (self.store.clone(), self.clock.clone(), self.chance.clone());
        Self {
            consumer: consumer.isolated(store.clone(), clock.clone(), chance.clone()),
            store,
            clock,
            chance,
            timeout: self.timeout,
        }
    }

    /// Sets how long an invocation may take: the function's timeout. Default: 30 s.
    ///
    /// Handlers are cancelled a second before, or a tenth of the time if that is less, unless the
    /// consumer's deadline margin says otherwise; in Tokio's time, so that with
    /// `#[tokio::test(start_paused = true)]` it takes none.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The clock.
    pub fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// The store: what it holds, and trouble for it.
    pub fn store(&self) -> &TestStore {
        &self.store
    }

    /// Handles an event.
    ///
    /// # Panics
    /// If the invocation fails as a whole; [`try_run`](Self::try_run) gives the error.
    #[track_caller]
    pub fn run(&self, event: impl Borrow<Event>) -> impl Future<Output = Answer> {
        let caller = Location::caller();
        async move {
            let answer = self.try_run(event).await;
            answer.unwrap_or_else(|error| panic!("the invocation at {caller} failed: {error}"))
        }
    }

    /// Handles an event that may not be answered record by record.
    ///
    /// # Errors
    /// What fails the invocation as a whole: an event with a record that has no message id,
    /// [`raise_on_total_failure`](crate::Consumer::raise_on_total_failure), or a setting that is wrong.
    pub async fn try_run(&self, event: impl Borrow<Event>) -> Result<Answer, EventError> {
        self.invoke(&self.consumer, event.borrow()).await
    }

    /// Handles an event in a process of its own that dies after the first effect, before anything of it
    /// is recorded: the store holds the claim, and Lambda gets no answer. Of the [`Writes`](crate::Writes) that a
    /// handler returned nothing has happened then.
    ///
    /// # Panics
    /// If the process lives on, because no handler succeeds.
    #[track_caller]
    pub fn run_and_crash(&self, event: impl Borrow<Event>) -> impl Future<Output = ()> {
        let caller = Location::caller();
        async move {
            let store = Doomed::new(self.store.clone());
            let doomed = self.consumer.clone().store(store.clone());
            tokio::select! {
                biased;
                () = store.died() => {}
                answer = self.invoke(&doomed, event.borrow()) => panic!(
                    "the process at {caller} had no effect to die after: {answer:?}"
                ),
            }
        }
    }

    /// Gives a key to another worker, which is then at it: for as long as one of this consumer's own
    /// claims holds. Its owner loses the key, as after a lapsed lease.
    ///
    /// # Panics
    /// If `key` can't be a business key.
    #[track_caller]
    pub fn another_worker_claims<K>(&self, key: &K) -> impl Future<Output = ()>
    where
        K: KeyPart + ?Sized,
    {
        let key = business_key(key);
        async move {
            let claim = self.claim(&key).await.unwrap_or_else(refused);
            let existing = self.store.memory().get(&claim.id);
            self.store.memory().put(claim.write(existing.as_ref()));
        }
    }

    /// Lets another worker handle a key from beginning to end, even if the key has an owner.
    ///
    /// # Panics
    /// If `key` can't be a business key.
    #[track_caller]
    pub fn another_worker_completes<K>(&self, key: &K) -> impl Future<Output = ()>
    where
        K: KeyPart + ?Sized,
    {
        let key = business_key(key);
        async move {
            let claim = self.claim(&key).await.unwrap_or_else(refused);
            let driver = self.consumer.driver().await.unwrap_or_else(refused);
            let completion = driver.completion(&claim, None, CommitsWith::Nothing);
            let existing = self.store.memory().get(&claim.id);
            let claimed = claim.write(existing.as_ref());
            self.store
                .memory()
                .put(completion.settlement.write(Some(&claimed)));
        }
    }

    /// What the store holds for a key.
    ///
    /// # Panics
    /// If `key` can't be a business key.
    #[track_caller]
    pub fn item<K>(&self, key: &K) -> impl Future<Output = Option<Item>>
    where
        K: KeyPart + ?Sized,
    {
        let key = business_key(key);
        async move {
            let driver = self.consumer.driver().await.unwrap_or_else(refused);
            self.store.memory().get(&item_id(driver, &key))
        }
    }

    async fn invoke(&self, consumer: &Consumer, event: &Event) -> Result<Answer, EventError> {
        let mut context = Context::default();
        context.deadline = self.ends_at().as_millis();
        // Boxed, because rustc's limit of recursion is near in a test that nests a few futures more.
        let reports = Box::pin(consumer.handle(event.to_messages(), &context)).await?;
        let response = consumer.answer(&reports)?;
        Ok(Answer::new(reports, response))
    }

    /// The claim of another worker of this consumer.
    async fn claim(&self, key: &BusinessKey) -> Result<Claim, ConfigError> {
        let driver = self.consumer.driver().await?;
        let lease_until = self.consumer.lease_until(self.ends_at()).await?;
        Ok(driver.new_claim(item_id(driver, key), None, lease_until))
    }

    fn ends_at(&self) -> Timestamp {
        self.clock.now() + self.timeout
    }
}

#[track_caller]
pub(super) fn business_key<K: KeyPart + ?Sized>(key: &K) -> BusinessKey {
    BusinessKey::new(key).unwrap_or_else(|error| panic!("this can't be a business key: {error}"))
}

fn item_id(driver: &Driver, key: &BusinessKey) -> ItemId {
    let id = driver.item_id(key);
    id.unwrap_or_else(|error| panic!("the table has no place for this key: {error}"))
}

fn refused<T>(error: ConfigError) -> T {
    panic!("the consumer can't start: {error}")
}

/// Chance that is the same in every run: owners differ, pauses are spread.
#[derive(Clone, Debug, Default)]
struct Counter(Arc<AtomicU64>);

impl Random for Counter {
    fn bits(&self) -> u128 {
        let count = self.0.fetch_add(1, Ordering::SeqCst);
        // Fibonacci hashing spreads the count over the lower half; the upper half is unique.
        let spread = count.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        u128::from(count) << 64 | u128::from(spread)
    }
}
