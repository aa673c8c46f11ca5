//! A session with an open transaction that contains claims, and the end of that transaction.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::future::{BoxFuture, join3};
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, OpenTransaction, Owner, Settlement, Settling, StoreError, StoreErrorKind,
};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tracing::warn;

use crate::pool::{ANSWER_TIMEOUT, Connection, Connections};
use crate::{PostgresStore, errors};

/// Time limit for a rollback. A rollback takes longer only if a statement still runs.
const SOON: Duration = Duration::from_millis(500);

/// A connection with an open transaction. The handler's argument shares it.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    savepoints: Mutex<Savepoints>,
}

/// What the savepoints of a batch handler have left in the transaction.
#[derive(Debug, Default)]
pub(crate) struct Savepoints {
    /// The keys of the messages whose statements are in it.
    pub(crate) kept: HashSet<ItemId>,
    /// The open savepoint, whose future runs or was dropped. Its [`Transaction`](crate::Transaction) holds a copy.
    pub(crate) open: Option<Arc<()>>,
    /// Why nothing can be committed.
    pub(crate) broken: Option<&'static str>,
}

impl Session {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            savepoints: Mutex::default(),
        }
    }

    pub(crate) fn client(&self) -> &ClientWrapper {
        &self.connection
    }

    pub(crate) fn savepoints(&self) -> MutexGuard<'_, Savepoints> {
        // Nothing panics while the lock is held.
        self.savepoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transaction that contains claims. Dropping it rolls it back.
pub(crate) struct Open {
    /// `None` after the transaction has ended.
    session: Option<Arc<Session>>,
    /// The keys that it has claimed.
    claimed: Vec<(ItemId, Owner)>,
    /// The server's ID of the transaction.
    transaction: String,
    store: PostgresStore,
    runtime: Handle,
}

impl Open {
    pub(crate) fn new(
        connection: Connection,
        claimed: &[&Claim],
        transaction: String,
        store: PostgresStore,
    ) -> Self {
        let claimed = claimed.iter().map(|claim| (claim.id.clone(), claim.owner));
        Self {
            session: Some(Arc::new(Session::new(connection))),
            claimed: claimed.collect(),
            transaction,
            store,
            runtime: Handle::current(),
        }
    }

    /// Ends all claims and commits, in one round trip. The COMMIT is sent before the answer about the claims arrives; if
    /// they can't be ended, the COMMIT is a rollback.
    async fn end(&self, session: Session, settlements: &[Settlement]) -> Result<(), StoreError> {
        let releases = self.claimed.iter().map(|(id, owner)| {
            let settled = settlements.iter().find(|one| one.id == *id);
            let release = || Settlement::new(id.clone(), *owner, Settling::Release);
            settled.cloned().unwrap_or_else(release)
        });
        let all: Vec<_> = releases.collect();
        let mut ends = Vec::with_capacity(all.len());
        let mut completed = HashSet::with_capacity(all.len());
        for settlement in &all {
            ends.push(match &settlement.settling {
                Settling::Complete {
                    expiration, data, ..
                } => {
                    completed.insert(&settlement.id);
                    (settlement, Some((*expiration, data.as_ref())))
                }
                Settling::Release => (settlement, None),
                _ => return Err(failed("a transaction commits only completions")),
            });
        }
        let Session {
            connection,
            savepoints,
        } = session;
        let savepoints = savepoints
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = savepoints.broken {
            return Err(failed(problem));
        }
        if !savepoints.kept.iter().all(|id| completed.contains(id)) {
            return Err(failed(
                "a message failed although its statements were kept: nothing is committed; return the failure from the \
                 savepoint that contains the statements",
            ));
        }
        let undo = async {
            match savepoints.open {
                Some(_) => connection.batch_execute(UNDO).await,
                None => Ok(()),
            }
        };
        let ended = join3(
            undo,
            self.store
                .statements
                .end_here(&connection, &ends, &self.transaction),
            connection.batch_execute("COMMIT"),
        );
        let Ok((undone, ended, committed)) = timeout(ANSWER_TIMEOUT, ended).await else {
            return Err(errors::too_late(ANSWER_TIMEOUT));
        };
        if !committed.as_ref().is_err_and(errors::is_lost) {
            if ended.is_err() {
                forget_statements(&connection);
            }
            connection.release();
        }
        // PostgreSQL reports success for a COMMIT that rolled back, so the answer about the claims decides.
        ended.map_err(explained)?;
        undone.map_err(errors::request)?;
        committed.map_err(errors::request)
    }
}

/// No handler gives a savepoint this name by accident.
pub(crate) const SAVEPOINT: &str = r#"SAVEPOINT "sqs-once record""#;
pub(crate) const RELEASE: &str = r#"RELEASE SAVEPOINT "sqs-once record""#;
pub(crate) const BACK: &str = r#"ROLLBACK TO SAVEPOINT "sqs-once record""#;
/// Undoes the statements of the open savepoint.
pub(crate) const UNDO: &str =
    r#"ROLLBACK TO SAVEPOINT "sqs-once record"; RELEASE SAVEPOINT "sqs-once record""#;

fn explained(error: Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::DIVISION_BY_ZERO => failed(
            "the claim is not in this transaction: the handler sent COMMIT or ROLLBACK, which only the store may send",
        ),
        Some(code) if *code == SqlState::IN_FAILED_SQL_TRANSACTION => failed(
            "a statement of the handler failed and the handler continued: nothing is committed; \
             put a savepoint before statements that may fail",
        ),
        _ => errors::request(error),
    }
}

impl OpenTransaction for Open {
    fn handle(&self) -> Arc<dyn Any + Send + Sync> {
        match &self.session {
            Some(session) => Arc::clone(session) as _,
            None => Arc::new(()),
        }
    }

    fn commit(
        mut self: Box<Self>,
        settlements: Vec<Settlement>,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(async move {
            match self.session.take().map(Arc::try_unwrap) {
                Some(Ok(session)) => self.end(session, &settlements).await,
                Some(Err(shared)) => {
                    self.session = Some(shared);
                    Err(failed(
                        "a task that the handler spawned still holds its transaction: nothing is committed; \
                         the handler must wait for tasks that use it",
                    ))
                }
                None => Err(failed("this transaction has ended")),
            }
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let connections = self.store.connections.clone();
            self.runtime.spawn(give_up(connections, session));
        }
    }
}

/// Rolls back. If the rollback succeeds, the next message uses the connection. Opening a new connection after every
/// failure would add load to a database that may already have too much.
async fn give_up(connections: Connections, session: Arc<Session>) {
    match Arc::try_unwrap(session) {
        Ok(Session { connection, .. }) => {
            if is_ended(&connections, &connection, "ROLLBACK").await {
                forget_statements(&connection);
                connection.release();
            }
        }
        Err(shared) => {
            warn!(
                target: "sqs_once::store",
                "a task that a handler spawned still holds its transaction: the store ends the session"
            );
            // A statement that the task sends after a ROLLBACK would run outside any transaction and commit.
            let end = "SELECT pg_terminate_backend(pg_backend_pid())";
            is_ended(&connections, &shared.connection, end).await;
        }
    }
}

/// Forgets prepared statements and types after a failure. A migration may have changed what they refer to, and each of
/// the connection's next messages would fail.
pub(crate) fn forget_statements(client: &ClientWrapper) {
    client.statement_cache.clear();
    client.clear_type_cache();
}

/// Returns whether `statement` completed within [`SOON`]. Otherwise this cancels the running statement, and the
/// connection must not be reused: a late cancellation would end the next statement.
async fn is_ended(connections: &Connections, connection: &Connection, statement: &str) -> bool {
    match timeout(SOON, connection.batch_execute(statement)).await {
        Ok(answer) => answer.is_ok(),
        Err(_) => {
            connections.cancel(connection).await;
            false
        }
    }
}

pub(crate) fn failed(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Other, message)
}
