//! A connection pool that takes a connection back only when nothing runs on it.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, ConfigConnectImpl, Manager, ManagerConfig, Object, Pool, PoolError,
    RecyclingMethod, Runtime, TimeoutType,
};
use sqs_once::ConfigError;
use sqs_once::store::StoreError;
use tokio::time::timeout;
use tokio_postgres::{Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::Settings;
use crate::iam::{ByToken, Tokens};
use crate::{errors, tls};

/// Time limits for a free connection and for opening a new one.
const WAIT_TIMEOUT: Duration = Duration::from_secs(4);
const CREATE_TIMEOUT: Duration = Duration::from_secs(4);
/// Time limit for the answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// Connections that were idle for longer are replaced. Lambda may have frozen the process, and a router may have
/// dropped the connection without telling either side.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// A pool that lends each connection for one request or one transaction.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    /// How to open connections. `None` for a pool that the caller provides.
    made: Option<Made>,
}

#[derive(Clone)]
struct Made {
    config: Config,
    tls: MakeRustlsConnect,
    tokens: Option<Tokens>,
}

impl Connections {
    pub(crate) fn open(settings: Settings) -> Result<Self, ConfigError> {
        let mode = settings.config.get_ssl_mode();
        let tls = tls::connector(mode, settings.root_cert.as_deref())?;
        let made = Made {
            config: settings.config,
            tls,
            tokens: settings.tokens,
        };
        Ok(Self::of_ours(made, settings.connections))
    }

    pub(crate) fn of(pool: Pool) -> Self {
        Self { pool, made: None }
    }

    fn of_ours(made: Made, connections: usize) -> Self {
        // The pool never returns a closed connection. The first request detects a dead one.
        let recycling = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let (config, tls) = (made.config.clone(), made.tls.clone());
        let connect = ConfigConnectImpl { tls };
        let manager = match made.tokens.clone() {
            Some(tokens) => Manager::from_connect(config, ByToken { tokens, connect }, recycling),
            None => Manager::from_connect(config, connect, recycling),
        };
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_TIMEOUT))
            .create_timeout(Some(CREATE_TIMEOUT))
            .build()
            .expect("the pool has a runtime for its timeouts");
        Self {
            pool,
            made: Some(made),
        }
    }

    /// Returns the database of the connections, if known.
    pub(crate) fn database(&self) -> Option<String> {
        let Made { config, .. } = self.made.as_ref()?;
        let (hosts, ports) = (config.get_hosts(), config.get_ports());
        Some(format!("{hosts:?} {ports:?} {:?}", config.get_dbname()))
    }

    /// Creates a new pool with this many connections.
    pub(crate) fn with(self, connections: usize) -> Self {
        match self.made {
            Some(made) => Self::of_ours(made, connections),
            None => self,
        }
    }

    /// Takes a connection out of the pool.
    pub(crate) async fn get(&self) -> Result<Connection, StoreError> {
        self.pool
            .retain(|_, metrics| metrics.last_used() < LONGEST_IDLE);
        // A pool that the caller provides may have no timeout.
        let connection = timeout(WAIT_TIMEOUT + CREATE_TIMEOUT, self.pool.get()).await;
        let object = connection
            .map_err(|_| errors::pool(PoolError::Timeout(TimeoutType::Wait)))?
            .map_err(errors::pool)?;
        Ok(Connection {
            is_reused: Object::metrics(&object).recycled.is_some(),
            object: Some(object),
        })
    }

    /// Runs one request. If a reused connection turns out to be dead, runs the request once more on a new connection.
    /// This is safe for requests that the store recognises the second time, such as the entries of a slice. It is also
    /// safe for requests without effect before a commit.
    pub(crate) async fn request<T, F>(
        &self,
        patience: Duration,
        run: impl Fn(Connection) -> F,
    ) -> Result<(T, Connection), StoreError>
    where
        F: Future<Output = (Result<T, Failure>, Connection)>,
    {
        let connection = self.get().await?;
        let is_reused = connection.is_reused;
        let answer = match answered(patience, run(connection)).await {
            Err(Failure::Lost(_)) if is_reused => {
                // The cause has probably killed the other idle connections too.
                self.pool.retain(|_, _| false);
                answered(patience, run(self.get().await?)).await
            }
            answer => answer,
        };
        answer.map_err(|(Failure::Lost(error) | Failure::Answered(error))| error)
    }

    /// Runs one request that leaves no transaction open, and returns its connection to the pool.
    pub(crate) async fn request_alone<T, F>(
        &self,
        run: impl Fn(Connection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = (Result<T, Failure>, Connection)>,
    {
        let (answer, connection) = self.request(ANSWER_TIMEOUT, run).await?;
        connection.release();
        Ok(answer)
    }

    /// Cancels the statement that runs on a connection, by a separate connection. The statement may have ended already.
    pub(crate) async fn cancel(&self, connection: &Connection) {
        if let Some(made) = &self.made {
            let token = connection.cancel_token();
            // If the cancellation fails, the server ends the statement later by its own timeout.
            let _ = timeout(CREATE_TIMEOUT, token.cancel_query(made.tls.clone())).await;
        }
    }
}

/// The reason that a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection is unusable, and the effect of the request is unknown.
    Lost(StoreError),
    /// The server returned an error.
    Answered(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match errors::is_lost(&error) {
            true => Self::Lost(errors::request(error)),
            false => Self::Answered(errors::request(error)),
        }
    }
}

async fn answered<T>(
    patience: Duration,
    request: impl Future<Output = (Result<T, Failure>, Connection)>,
) -> Result<(T, Connection), Failure> {
    match timeout(patience, request).await {
        Ok((Ok(answer), connection)) => Ok((answer, connection)),
        Ok((Err(failure), connection)) => {
            if let Failure::Answered(_) = failure {
                connection.release();
            }
            Err(failure)
        }
        // Dropping the connection closes it, even if the request still runs on it.
        Err(_) => Err(Failure::Lost(errors::too_late(patience))),
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.pool.status();
        f.debug_tuple("Connections").field(&status).finish()
    }
}

/// A connection out of the pool. Only [`release`](Self::release) returns it. Dropping it closes it, and the server
/// rolls back anything uncommitted.
pub(crate) struct Connection {
    object: Option<Object>,
    is_reused: bool,
}

impl Connection {
    /// Returns the connection to the pool. No statement may be in flight and no transaction open.
    pub(crate) fn release(mut self) {
        drop(self.object.take());
    }
}

/// Omits the address.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Deref for Connection {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.object
            .as_ref()
            .expect("only `release` and `drop` take the connection out")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}
