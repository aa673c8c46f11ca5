//! Stores that differ from a sound store.

use std::time::Duration;

use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Item, Settled, Settlement, Store, StoreError, StoreErrorKind, StoreFuture,
};
use tokio::time::sleep;

use super::SECOND;

type Time<E> = dyn Fn(&[E]) -> Duration + Send + Sync;
type Refuses<E> = dyn Fn(&E) -> Option<StoreError> + Send + Sync;
type Answers<E> = dyn Fn(&[E]) -> Result<Duration, StoreErrorKind> + Send + Sync;

/// The treatment of one kind of request.
struct Requests<E> {
    time: Box<Time<E>>,
    refuses: Box<Refuses<E>>,
    /// How long the answer takes once the request is carried out, or how it is lost.
    answers: Box<Answers<E>>,
}

impl<E> Default for Requests<E> {
    fn default() -> Self {
        Self {
            time: Box::new(|_| Duration::ZERO),
            refuses: Box::new(|_| None),
            answers: Box::new(|_| Ok(Duration::ZERO)),
        }
    }
}

impl<E: Clone> Requests<E> {
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

/// A store in which requests take time, and entries are refused.
pub(crate) struct Altered<S> {
    inner: S,
    name: Option<&'static str>,
    claims: Requests<Claim>,
    settlements: Requests<Settlement>,
    reads: Requests<ItemId>,
}

impl<S: Store> Altered<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            name: None,
            claims: Requests::default(),
            settlements: Requests::default(),
            reads: Requests::default(),
        }
    }

    /// A store that never answers.
    pub(crate) fn silent(inner: S) -> Self {
        let altered = Self::new(inner).claims_take(|_| Duration::MAX);
        let altered = altered.settlements_take(|_| Duration::MAX);
        altered.reads_take(|_| Duration::MAX)
    }

    /// Gives the store an identity.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    pub(crate) fn claims_take(
        mut self,
        time: impl Fn(&[Claim]) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.claims.time = Box::new(time);
        self
    }

    pub(crate) fn settlements_take(
        mut self,
        time: impl Fn(&[Settlement]) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.settlements.time = Box::new(time);
        self
    }

    pub(crate) fn reads_take(
        mut self,
        time: impl Fn(&[ItemId]) -> Duration + Send + Sync + 'static,
    ) -> Self {
        self.reads.time = Box::new(time);
        self
    }

    /// Carries claims out, and answers after this time, or with this error.
    pub(crate) fn claims_answered(
        mut self,
        answers: impl Fn(&[Claim]) -> Result<Duration, StoreErrorKind> + Send + Sync + 'static,
    ) -> Self {
        self.claims.answers = Box::new(answers);
        self
    }

    /// Carries this kind of request out, and answers a second later.
    pub(crate) fn late(mut self, request: &str) -> Self {
        match request {
            "claim" => self.claims.answers = Box::new(|_| Ok(SECOND)),
            "settle" => self.settlements.answers = Box::new(|_| Ok(SECOND)),
            _ => self.reads.answers = Box::new(|_| Ok(SECOND)),
        }
        self
    }

    pub(crate) fn refusing_claims(
        mut self,
        refuses: impl Fn(&Claim) -> Option<StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.claims.refuses = Box::new(refuses);
        self
    }

    pub(crate) fn refusing_settlements(
        mut self,
        refuses: impl Fn(&Settlement) -> Option<StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.settlements.refuses = Box::new(refuses);
        self
    }
}

impl<S: Store> Store for Altered<S> {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        let time = (self.claims.time)(claims);
        Box::pin(async move {
            let passing = self.claims.pass(time, claims).await;
            let answers = self.inner.claim(&passing).await;
            self.claims.answers(claims, answers).await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let time = (self.settlements.time)(settlements);
        Box::pin(async move {
            let passing = self.settlements.pass(time, settlements).await;
            let answers = self.inner.settle(&passing).await;
            self.settlements.answers(settlements, answers).await
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        let time = (self.reads.time)(ids);
        Box::pin(async move {
            let passing = self.reads.pass(time, ids).await;
            let answers = self.inner.read(&passing).await;
            self.reads.answers(ids, answers).await
        })
    }

    fn identity(&self) -> Option<String> {
        self.name.map(str::to_owned)
    }
}
