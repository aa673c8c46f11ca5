//! Transactions as in a relational database: the claim is in the transaction, and a key has one transaction at a time.

use std::any::Any;
use std::fmt::from_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqs_once::HandlerError;
use sqs_once::extract::{FromRecord, RecordParts};
use sqs_once::store::{
    Begun, Claim, Claimed, Item, OpenTransaction, Settlement, StoreError, StoreErrorKind,
    Transactions,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::ids::key_of;
use super::network::PATIENCE;
use super::store::TableClient;

/// How long a worker waits before it asks again for a key that another transaction holds.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Session {
    pub(crate) claim: Claim,
    /// Whether the transaction has ended, or the server has learnt that its connection is closed.
    pub(crate) is_over: AtomicBool,
    pub(crate) has_effect: AtomicBool,
}

pub(crate) enum Beginning {
    /// Another transaction holds the key.
    Waits,
    Open(Item),
    Refused(Box<Item>),
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
        _: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            let [claim] = claims else {
                let message = "the simulated handlers take a transaction for one record";
                return Err(StoreError::new(StoreErrorKind::Other, message));
            };
            let until = Instant::now() + patience;
            let open = Open {
                client: self.clone(),
                session: Arc::new(Session {
                    claim: claim.clone(),
                    is_over: AtomicBool::new(false),
                    has_effect: AtomicBool::new(false),
                }),
            };
            let key = key_of(&claim.id);
            loop {
                let (table, session) = (Arc::clone(&self.table), Arc::clone(&open.session));
                let what = from_fn(move |f| write!(f, "begins a transaction on k{key}"));
                match open.pass(what, move || table.begin(&session)).await? {
                    Beginning::Open(item) => {
                        let fence = item.fence.unwrap_or_default();
                        let answers = vec![Ok(Claimed::Written { fence })];
                        return Ok(Begun::new(answers, Some(Box::new(open))));
                    }
                    Beginning::Refused(item) => {
                        return Ok(Begun::new(vec![Ok(Claimed::Refused(item))], None));
                    }
                    Beginning::Waits if Instant::now() < until => sleep(PAUSE).await,
                    Beginning::Waits => return Err(unanswered()),
                }
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
            let Ok([settlement]) = <[_; 1]>::try_from(settlements) else {
                let message = "a transaction of one record has one settlement";
                return Err(StoreError::new(StoreErrorKind::Other, message));
            };
            let key = key_of(&settlement.id);
            let carry_out = {
                let (client, session) = (self.client.clone(), Arc::clone(&self.session));
                move || {
                    let (world, process) = (&client.world, &client.process);
                    let table = &client.table;
                    table.commit_session(world, process, &session, &settlement)
                }
            };
            let what = from_fn(move |f| write!(f, "commits its transaction on k{key}"));
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

pub(crate) struct Transaction(Arc<Session>);

impl Transaction {
    /// Adds the handler's effect to the transaction.
    pub(crate) fn write(&self) -> impl FnOnce() + Send + use<> {
        let session = Arc::clone(&self.0);
        move || session.has_effect.store(true, Ordering::Relaxed)
    }
}

impl<S: Sync> FromRecord<S> for Transaction {
    const TRANSACTION: bool = true;

    async fn from_record(parts: &RecordParts<S>) -> Result<Self, HandlerError> {
        let open = parts.transaction().and_then(|open| open.downcast().ok());
        open.map(Self)
            .ok_or_else(|| HandlerError::retry("there is no transaction"))
    }
}
