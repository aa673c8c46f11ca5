//! Transactions as in a relational database: the claim is in the transaction, and a key has one transaction at a time.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sqs_once::HandlerError;
use sqs_once::extract::{BatchParts, FromBatch, FromRecord, RecordParts};
use sqs_once::store::{
    Begun, Claim, Claimed, OpenTransaction, Settlement, StoreError, StoreErrorKind, Transactions,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::network::PATIENCE;
use super::store::{Named, TableClient};

/// How long a worker waits before it asks again for a key that another transaction holds.
const PAUSE: Duration = Duration::from_millis(50);

/// How long several claims wait for other transactions on their keys, before the transaction begins without these.
const FIRST_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct Session {
    pub(crate) claims: Vec<Claim>,
    /// Whether the transaction has ended, or the server has learnt that its connection is closed.
    pub(crate) is_over: AtomicBool,
    /// The keys with an effect. That of a record that fails is undone, because it has a savepoint.
    pub(crate) effects: Mutex<Vec<usize>>,
}

/// The client side of a transaction. The server learns of its drop only after a delay.
struct Open {
    client: TableClient,
    session: Arc<Session>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let heard_after = self.client.world.chance.millis(1..20_000);
        let (table, session) = (Arc::clone(&self.client.table), Arc::clone(&self.session));
        runtime.spawn(async move {
            sleep(heard_after).await;
            table.end(&session);
        });
    }
}

impl Transactions for TableClient {
    fn begin<'a>(
        &'a self,
        claims: &'a [Claim],
        patience: Duration,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            let begun = Instant::now();
            let open = Open {
                client: self.clone(),
                session: Arc::new(Session {
                    claims: claims.to_vec(),
                    is_over: AtomicBool::new(false),
                    effects: Mutex::default(),
                }),
            };
            // The server ends the transaction then, even if the process is frozen.
            let (table, session) = (Arc::clone(&self.table), Arc::clone(&open.session));
            tokio::spawn(async move {
                sleep(limit).await;
                table.end(&session);
            });
            let ids = || claims.iter().map(|claim| &claim.id);
            loop {
                let waits = claims.len() == 1 || begun.elapsed() < FIRST_WAIT.min(patience);
                let (table, session) = (Arc::clone(&self.table), Arc::clone(&open.session));
                let what = Named("begins a transaction on", ids);
                let answers = open.pass(what, move || table.begin(&session, waits));
                let Some(answers) = answers.await? else {
                    match begun.elapsed() < patience {
                        true => sleep(PAUSE).await,
                        false => return Err(unanswered()),
                    }
                    continue;
                };
                let is_written = |answer: &Claimed| matches!(answer, Claimed::Written { .. });
                let is_open = answers.iter().any(is_written);
                let open = is_open.then(|| Box::new(open) as _);
                return Ok(Begun::new(answers.into_iter().map(Ok).collect(), open));
            }
        })
    }
}

impl Open {
    async fn pass<A: Send + 'static>(
        &self,
        what: impl std::fmt::Display,
        carry_out: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, StoreError> {
        let TableClient { world, process, .. } = &self.client;
        let passed = world.network.pass(process, what, carry_out);
        match timeout(PATIENCE, passed).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(unanswered()),
        }
    }
}

impl OpenTransaction for Open {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.session) as _
    }

    fn commit(
        self: Box<Self>,
        settlements: Vec<Settlement>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(async move {
            let ids: Vec<_> = settlements.iter().map(|one| one.id.clone()).collect();
            let carry_out = {
                let (client, session) = (self.client.clone(), Arc::clone(&self.session));
                move || {
                    let (world, process) = (&client.world, &client.process);
                    let table = &client.table;
                    table.commit_session(world, process, &session, &settlements)
                }
            };
            let what = Named("commits its transaction on", || ids.iter());
            match self.pass(what, carry_out).await? {
                true => Ok(()),
                false => Err(StoreError::new(StoreErrorKind::Other, "it is over")),
            }
        })
    }
}

fn unanswered() -> StoreError {
    StoreError::new(StoreErrorKind::Unanswered, "the simulation wants it")
}

#[derive(Clone)]
pub(crate) struct Transaction(Arc<Session>);

impl Transaction {
    fn of(open: Option<Arc<dyn Any + Send + Sync>>) -> Result<Self, HandlerError> {
        let session = open.and_then(|open| open.downcast().ok());
        session
            .map(Self)
            .ok_or_else(|| HandlerError::retry("there is no transaction"))
    }

    /// Adds the effect of a key to the transaction.
    pub(crate) fn write(&self, key: usize) -> impl FnOnce() + Send + use<> {
        let session = Arc::clone(&self.0);
        move || session.effects.lock().push(key)
    }
}

impl<S: Sync> FromBatch<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_batch(parts: &BatchParts<S>) -> Result<Self, HandlerError> {
        Self::of(parts.transaction())
    }
}

impl<S: Sync> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        Self::of(parts.transaction())
    }
}
