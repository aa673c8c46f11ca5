//! Connections: opened on demand, given back only when nothing is left to happen on them.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, ConfigConnectImpl, Manager, ManagerConfig, Object, Pool, PoolError,
    RecyclingMethod, Runtime, TimeoutType,
};
use sqs_once::store::StoreError;
use tokio::time::timeout;
use tokio_postgres::{Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{ConfigError, Settings};
use crate::iam::{ByToken, Tokens};
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
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Pool,
    /// How its connections are made; not known for a pool of the user's own.
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
        // A closed connection is never handed out; a dead one is told by its first request.
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
            .expect("a pool with timeouts wants a runtime, which it is given");
        Self {
            pool,
            made: Some(made),
        }
    }

    /// Where its connections lead, if that is known.
    pub(crate) fn database(&self) -> Option<String> {
        let Made { config, .. } = self.made.as_ref()?;
        let (hosts, ports) = (config.get_hosts(), config.get_ports());
        Some(format!("{hosts:?} {ports:?} {:?}", config.get_dbname()))
    }

    /// As many connections as this, in a new pool.
    pub(crate) fn with(self, connections: usize) -> Self {
        match self.made {
            Some(made) => Self::of_ours(made, connections),
            None => self,
        }
    }

    /// A connection that nobody else uses.
    pub(crate) async fn get(&self) -> Result<Connection, StoreError> {
        self.pool
            .retain(|_, metrics| metrics.last_used() < LONGEST_IDLE);
        // A pool of the user's own may have no timeout.
        let connection = timeout(WAIT_TIMEOUT + CREATE_TIMEOUT, self.pool.get()).await;
        let object = connection
            .map_err(|_| errors::pool(PoolError::Timeout(TimeoutType::Wait)))?
            .map_err(errors::pool)?;
        Ok(Connection {
            was_idle: Object::metrics(&object).recycled.is_some(),
            object: Some(object),
        })
    }

    /// Runs one request, and once more on a new connection if the one it ran on turns out dead after it had
    /// idled. That is safe for what is recognised the second time, as every entry of a slice is, or happens
    /// only with a commit.
    pub(crate) async fn request<T, F>(
        &self,
        patience: Duration,
        run: impl Fn(Connection) -> F,
    ) -> Result<(T, Connection), StoreError>
    where
        F: Future<Output = (Result<T, Failure>, Connection)>,
    {
        let connection = self.get().await?;
        let was_idle = connection.was_idle;
        let answer = match answered(patience, run(connection)).await {
            Err(Failure::Lost(_)) if was_idle => {
                // What killed one connection has killed the others.
                self.pool.retain(|_, _| false);
                answered(patience, run(self.get().await?)).await
            }
            answer => answer,
        };
        answer.map_err(|(Failure::Lost(error) | Failure::Answered(error))| error)
    }

    /// Ends what runs on a connection, by a connection of its own. It may find nothing to end.
    pub(crate) async fn cancel(&self, connection: &Connection) {
        if let Some(made) = &self.made {
            let token = connection.cancel_token();
            // If this fails, the server ends it by itself a while later.
            let _ = timeout(CREATE_TIMEOUT, token.cancel_query(made.tls.clone())).await;
        }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection is of no use any more, and what the server made of the request is unknown.
    Lost(StoreError),
    /// The server said so.
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
        // The connection is closed, with the request that may still run on it.
        Err(_) => Err(Failure::Lost(errors::too_late(patience))),
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.pool.status();
        f.debug_tuple("Connections").field(&status).finish()
    }
}

/// A connection out of the pool. It goes back by [`release`](Self::release) alone: dropped, it is closed,
/// and the server rolls back what was not committed.
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

/// Says nothing of where it leads.
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
