//! A consumer under test.

use std::borrow::Borrow;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lambda_runtime::Context;

#[cfg(feature = "sqs")]
use crate::breaker::Deliveries;
use crate::consumer::{Consumer, EventError, Runnable};
use crate::error::ConfigError;
#[cfg(feature = "sqs")]
use crate::failed::Queues;
use crate::handler::UNDECLARED;
use crate::idempotency::{CommitsWith, KeyRules};
use crate::key::{BusinessKey, ItemId, KeyPart};
use crate::random::Random;
use crate::store::{Claim, Item};
use crate::time::Timestamp;

use super::store::Death;
use super::{Answer, Event, TestClock, TestStore};

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a consumer in memory, with the code that runs in Lambda. The bench has its own store, a clock that the test
/// controls, and queues whose requests always succeed, unless the consumer has its own client for them.
///
/// As in Lambda, settings that neither the code nor the bench sets come from the environment or the defaults. Random
/// numbers are the same in every run.
#[derive(Debug)]
pub struct Bench {
    consumer: Consumer,
    /// The route of a router whose keys the methods take.
    route: Option<Arc<str>>,
    surroundings: Surroundings,
}

/// What processes side by side share.
#[derive(Clone, Debug)]
struct Surroundings {
    store: TestStore,
    clock: TestClock,
    chance: Counter,
    timeout: Duration,
    #[cfg(feature = "sqs")]
    queues: Queues,
}

impl Bench {
    /// Puts a handler, a consumer or a [router](crate::Router) on the bench, and replaces its store and its clock.
    #[must_use]
    pub fn new(consumer: impl Runnable) -> Self {
        let surroundings = Surroundings {
            store: TestStore::default(),
            clock: TestClock::new(),
            chance: Counter::default(),
            timeout: TIMEOUT,
            #[cfg(feature = "sqs")]
            queues: Queues {
                deliveries: Deliveries::Unlimited,
            },
        };
        surroundings.bench(consumer.into_consumer())
    }

    /// Creates another process with the same table and the same time: a second worker, the next version of the
    /// consumer, or another consumer that shares the table.
    #[must_use]
    pub fn beside(&self, consumer: impl Runnable) -> Self {
        self.surroundings.clone().bench(consumer.into_consumer())
    }

    /// Sets how long an invocation may take: the function's timeout. Default: 30 s.
    ///
    /// By default, handlers are cancelled a second before the timeout, or a tenth of the timeout if that is less. The
    /// consumer's deadline margin changes this. The time is Tokio's: in `#[tokio::test(start_paused = true)]`, the test
    /// does not wait.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.surroundings.timeout = timeout;
        self
    }

    /// Sets the `maxReceiveCount` in the redrive policy of the queues, which decides during an
    /// [outage](crate::Handler::depends_on) how long messages stay hidden, and which delivery is the last one. Default: the
    /// queues have no redrive policy.
    #[cfg(feature = "sqs")]
    #[must_use]
    pub fn max_receive_count(mut self, count: u32) -> Self {
        self.surroundings.queues.deliveries = Deliveries::AtMost(count);
        self.surroundings.bench(self.consumer)
    }

    /// Chooses a route of a router: [`item`](Self::item), [`another_worker_claims`](Self::another_worker_claims) and
    /// [`another_worker_completes`](Self::another_worker_completes) take keys of this route. Default: the first route.
    #[must_use]
    pub fn in_route(&self, name: &str) -> Self {
        Self {
            consumer: self.consumer.clone(),
            route: Some(name.into()),
            surroundings: self.surroundings.clone(),
        }
    }

    /// Returns the clock.
    pub fn clock(&self) -> &TestClock {
        &self.surroundings.clock
    }

    /// Returns the store, to read its items and to make it fail.
    pub fn store(&self) -> &TestStore {
        &self.surroundings.store
    }

    /// Starts the consumer, as [`run`](crate::run) does before the first event.
    ///
    /// # Panics
    /// If a setting is invalid.
    pub async fn init(&self) {
        self.consumer.init().await.unwrap_or_else(refused);
    }

    /// Handles an event.
    ///
    /// # Panics
    /// If the invocation fails as a whole; [`try_run`](Self::try_run) returns the error.
    #[track_caller]
    pub fn run(&self, event: impl Borrow<Event>) -> impl Future<Output = Answer> {
        let caller = Location::caller();
        async move {
            let answer = self.try_run(event).await;
            answer.unwrap_or_else(|error| panic!("the invocation at {caller} failed: {error}"))
        }
    }

    /// Handles an event whose invocation may fail as a whole.
    ///
    /// # Errors
    /// If the invocation fails as a whole: a record of the event has no message id, or a setting is invalid.
    pub async fn try_run(&self, event: impl Borrow<Event>) -> Result<Answer, EventError> {
        self.invoke(&self.consumer, event.borrow()).await
    }

    /// Handles an event in a separate process that dies after the first effect, before its key is completed. The store keeps
    /// the claim, and Lambda gets no answer. [`Writes`](crate::Writes) that a handler returned are not committed.
    ///
    /// # Panics
    /// If the process does not die, because no handler succeeds.
    #[track_caller]
    pub fn run_and_crash(&self, event: impl Borrow<Event>) -> impl Future<Output = ()> {
        let caller = Location::caller();
        async move {
            let death = Arc::<Death>::default();
            let doomed = self.consumer.clone().store(self.store().until(&death));
            tokio::select! {
                biased;
                () = death.comes() => {}
                answer = self.invoke(&doomed, event.borrow()) => panic!(
                    "the process at {caller} did not die, because no handler succeeded: {answer:?}"
                ),
            }
        }
    }

    /// Lets another worker claim a key, with the lease of one of this consumer's own claims. If the key has an owner,
    /// it loses the key, as after a lapsed lease.
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
            let (_, item) = self.claimed(&key).await;
            self.store().memory().put(item);
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
            let (claim, item) = self.claimed(&key).await;
            let rules = self.rules().await;
            let completion = rules.completion(&claim, None, CommitsWith::Nothing);
            let item = completion.write(&item);
            self.store().memory().put(item);
        }
    }

    /// Returns the store's item for a key.
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
            let rules = self.rules().await;
            self.store().memory().get(&item_id(rules, &key))
        }
    }

    async fn invoke(&self, consumer: &Consumer, event: &Event) -> Result<Answer, EventError> {
        let context = invocation(self.ends_at());
        // Boxed, because tests that nest more futures would exceed rustc's recursion limit.
        let reports = Box::pin(consumer.handle(event.read(), context)).await?;
        let mut reasons = reports.iter().filter_map(|(_, report)| report.reason());
        if let Some(reason) = reasons.find(|reason| reason.contains(UNDECLARED)) {
            panic!("a message failed with a retryable error: {reason}");
        }
        let response = consumer.answer(&reports)?;
        Ok(Answer::new(reports, response))
    }

    /// Creates the claim of another worker of this consumer, and the item that the claim leaves.
    async fn claimed(&self, key: &BusinessKey) -> (Claim, Item) {
        let rules = self.rules().await;
        let lease_until = rules.driver.deadline(self.ends_at()).lease_until;
        let claim = rules.new_claim(
            rules.driver.owners().next(),
            item_id(rules, key),
            None,
            lease_until,
        );
        let existing = self.store().memory().get(&claim.id);
        let item = claim.write(existing.as_ref());
        (claim, item)
    }

    async fn rules(&self) -> &KeyRules {
        let rules = self.consumer.rules(self.route.as_deref()).await;
        rules.unwrap_or_else(refused)
    }

    fn ends_at(&self) -> Timestamp {
        self.clock().now() + self.surroundings.timeout
    }
}

impl Surroundings {
    fn bench(self, consumer: Consumer) -> Bench {
        let (store, clock, chance) = (self.store.clone(), self.clock.clone(), self.chance.clone());
        let consumer = consumer.isolated(store, clock, chance);
        #[cfg(feature = "sqs")]
        let consumer = consumer.with_queues(self.queues);
        Bench {
            consumer,
            route: None,
            surroundings: self,
        }
    }
}

/// Returns Lambda's context of an invocation.
pub(super) fn invocation(ends_at: Timestamp) -> Context {
    let mut context = Context::default();
    context.deadline = ends_at.as_millis();
    context.request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned();
    context.invoked_function_arn =
        "arn:aws:lambda:eu-central-1:123456789012:function:test".to_owned();
    context
}

#[track_caller]
pub(super) fn business_key<K: KeyPart + ?Sized>(key: &K) -> BusinessKey {
    BusinessKey::new(key).unwrap_or_else(|error| panic!("this can't be a business key: {error}"))
}

fn item_id(rules: &KeyRules, key: &BusinessKey) -> ItemId {
    let id = rules.codec.item_id(key);
    id.unwrap_or_else(|error| panic!("this key has no item id: {error}"))
}

fn refused<T>(error: ConfigError) -> T {
    panic!("the consumer can't start: {error}")
}

/// Random numbers that are the same in every run. Owners differ, and pauses are spread.
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
