//! Connections: opened on demand, given back only when nothing is left to happen on them.

use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use sqs_once::store::{StoreError, StoreErrorKind};
use tokio::time::timeout;
use tokio_postgres::Error;

use crate::config::{ConfigError, Settings};
use crate::{errors, tls};

/// How long a request waits for a free connection and for a new one.
const WAIT_TIMEOUT: Duration = Duration::from_secs(4);
const CREATE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long it waits for its answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// A connection that has idled longer is replaced and not trusted: in Lambda the process may have been frozen
/// meanwhile, and a connection that a router between has forgotten tells nobody, for minutes.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// A pool whose connections are open for one request or one transaction at a time.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pool: Pool,
}

impl Connections {
    pub(crate) fn open(settings: Settings) -> Result<Self, ConfigError> {
        let mode = settings.config.get_ssl_mode();
        let tls = tls::connector(mode, settings.root_cert.as_deref())?;
        // A closed connection is never handed out; a dead one is told by its first request.
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let pool = Pool::builder(Manager::from_config(settings.config, tls, manager))
            .max_size(settings.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_TIMEOUT))
            .create_timeout(Some(CREATE_TIMEOUT))
            .build()
            .map_err(|error| ConfigError::new("the pool", error.to_string(), "its defaults"))?;
        Ok(Self { pool })
    }

    pub(crate) fn of(pool: Pool) -> Self {
        Self { pool }
    }

    pub(crate) fn resize(&self, connections: usize) {
        self.pool.resize(connections);
    }

    /// A connection that nobody else uses.
    pub(crate) async fn get(&self) -> Result<Connection, StoreError> {
        self.pool
            .retain(|_, metrics| metrics.last_used() < LONGEST_IDLE);
        // A pool of the user's own may have no timeout.
        let connection = timeout(WAIT_TIMEOUT + CREATE_TIMEOUT, self.pool.get()).await;
        let object = connection
            .map_err(|_| errors::pool(PoolError::Timeout(deadpool_postgres::TimeoutType::Wait)))?
            .map_err(errors::pool)?;
        Ok(Connection {
            was_idle: Object::metrics(&object).recycled.is_some(),
            object: Some(object),
        })
    }

    /// Runs one request, and once more on a new connection if the one it ran on turns out dead after it had
    /// idled. That is safe for what happens once or is recognised the second time, as every entry of a
    /// slice is, and a transaction that is only begun.
    pub(crate) async fn request<T, F>(
        &self,
        patience: Duration,
        run: impl Fn(Connection) -> F,
    ) -> Result<(T, Connection), StoreError>
    where
        F: Future<Output = (Result<T, Error>, Connection)>,
    {
        let connection = self.get().await?;
        let was_idle = connection.was_idle;
        match answered(patience, run(connection)).await {
            Err(error) if was_idle && error.kind() == StoreErrorKind::Unanswered => {
                // What killed one connection has killed the others.
                self.pool.retain(|_, _| false);
                answered(patience, run(self.get().await?)).await
            }
            answer => answer,
        }
    }
}

async fn answered<T>(
    patience: Duration,
    request: impl Future<Output = (Result<T, Error>, Connection)>,
) -> Result<(T, Connection), StoreError> {
    match timeout(patience, request).await {
        Ok((Ok(answer), connection)) => Ok((answer, connection)),
        Ok((Err(error), connection)) => {
            if !errors::is_lost(&error) {
                connection.release();
            }
            Err(errors::request(error))
        }
        // The connection is closed with the request that may still run on it.
        Err(_) => Err(errors::too_late(patience)),
    }
}

/// A connection out of the pool. It goes back by [`release`](Self::release) alone: dropped, it is closed,
/// and the server rolls back what was not committed.
#[derive(Debug)]
pub(crate) struct Connection {
    object: Option<Object>,
    was_idle: bool,
}

impl Connection {
    /// Back to the pool: nothing is under way on it, and no transaction is open.
    pub(crate) fn release(mut self) {
        drop(self.object.take());
    }
}

impl Deref for Connection {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.object
            .as_ref()
            .expect("only its release and its drop take the connection out")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}
