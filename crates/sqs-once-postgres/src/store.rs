//! The store: writes slices in single statements and reads the rows that refused.

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::Pool;
use futures_util::future::join4;
use sqs_once::ConfigError;
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Item, Seen, Settled, Settlement, Settling, Store, StoreError, StoreErrorKind,
    StoreFuture, Transactions,
};
use tokio_postgres::{Client, Error, Row};

use crate::config::{Settings, process_env};
use crate::pool::{Connections, Failure};
use crate::rows;
use crate::statements::{End, Renewal, Statements, Unclaimed};

/// How often a claim is sent if its row refuses it but is gone when the store reads it.
const TRIES: usize = 3;

/// Stores claims in the table `processed_events` of a PostgreSQL database, which [`SCHEMA_V1`](crate::SCHEMA_V1)
/// creates.
///
/// A slice of claims or completions is one statement, regardless of its length, and one more if some were refused. The
/// store opens connections when it needs them: by default at most 10, or as many as [`connections`](Self::connections)
/// or `SQS_ONCE_CONCURRENCY` set. That is one for each concurrent handler of one batch. A request waits up to 4 s
/// for a free connection, 4 s for a new one to open, and 4 s for its answer. The deadline of the invocation ends a
/// request sooner. Clones share their connections.
///
/// ```no_run
/// use sqs_once::HandlerError;
/// use sqs_once_postgres::PostgresStore;
/// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
///     Ok(())
/// }
///
/// #[tokio::main]
/// async fn main() -> Result<(), sqs_once::Error> {
///     let store = PostgresStore::from_env()?;
///     sqs_once::run(charge::consumer().store(store)).await
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pub(crate) connections: Connections,
    pub(crate) statements: Arc<Statements>,
}

impl PostgresStore {
    /// Uses the database in the environment variable `DATABASE_URL`.
    /// `SQS_ONCE_CONCURRENCY` sets the number of connections. A database on another machine requires TLS unless the
    /// connection string sets another `sslmode`; see the [crate's documentation](crate#tls).
    ///
    /// # Errors
    /// [`ConfigError`] if a variable is missing or malformed, or if the file of root certificates cannot be read. The
    /// store does not connect yet: [`Consumer::init`](sqs_once::Consumer::init) sends the first request, or else the
    /// first message.
    pub fn from_env() -> Result<Self, ConfigError> {
        Connections::open(Settings::from_env(&process_env)?).map(Self::on)
    }

    /// Uses the database in a connection string: a URL, or `key=value` pairs as in libpq. A URL may contain
    /// [`auth=iam`](crate#passwords-and-iam-authentication).
    ///
    /// # Errors
    /// [`ConfigError`] if the string is malformed, or if the file of root certificates cannot be read. With `auth=iam`,
    /// also if the environment has no AWS credentials or region.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let settings = Settings::from_string("the connection string", url, None, &process_env)?;
        Connections::open(settings).map(Self::on)
    }

    /// Uses a pool that the caller provides, with the pool's timeouts, TLS and number of connections.
    pub fn new(pool: Pool) -> Self {
        Self::on(Connections::of(pool))
    }

    fn on(connections: Connections) -> Self {
        Self {
            connections,
            statements: Arc::new(Statements::new("processed_events")),
        }
    }

    /// Sets the maximum number of connections. Default: `SQS_ONCE_CONCURRENCY` if the store reads the environment, or
    /// else 10.
    ///
    /// A handler with a [`Transaction`](crate::Transaction) occupies a connection while it runs, and so does a message
    /// that waits for another delivery's transaction. The store does not see a
    /// [`concurrency`](sqs_once::Consumer::concurrency) that the code sets: with `.concurrency(16)`, set
    /// `.connections(16)` here. On Lambda Managed Instances, multiply it by the number of batches that run
    /// [at once](crate#connections). With fewer connections, a message waits up to 4 s for one and then fails as
    /// throttled.
    ///
    /// The returned store shares no connections with the previous one. This method has no effect on a pool that the
    /// caller provides. Zero counts as one.
    ///
    /// ```no_run
    /// # use sqs_once_postgres::PostgresStore;
    /// let store = PostgresStore::from_env()?.connections(16);
    /// # Ok::<(), sqs_once::Error>(())
    /// ```
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        Self {
            connections: self.connections.with(connections.max(1)),
            ..self
        }
    }

    /// Uses the table in this schema. Default: the first schema of the connection's `search_path` that has the table,
    /// which is `public` unless the database sets another.
    #[must_use]
    pub fn schema(self, schema: &str) -> Self {
        let table = format!("\"{}\".processed_events", schema.replace('"', "\"\""));
        Self {
            statements: Arc::new(Statements::new(&table)),
            ..self
        }
    }

    /// Sends one statement for new keys and one for claims over existing rows, and reads the rows that refused. The
    /// claims' keys must differ.
    async fn claim_each(&self, claims: &[&Claim]) -> Vec<Result<Claimed, StoreError>> {
        let mut answers: HashMap<&ItemId, Result<Claimed, StoreError>> = HashMap::new();
        let mut open = claims.to_vec();
        for round in 0..TRIES {
            // After the first round, the row that a claim had read is gone.
            let is_over = |claim: &&&Claim| round == 0 && claim.seen != Seen::Nothing;
            let (over, new): (Vec<_>, Vec<_>) = open.iter().partition(is_over);
            let (over, new) = (&*over, &*new);
            let request = self.connections.request_alone(|connection| async move {
                let answer = async {
                    let written = self.statements.claim_alone(&connection, new, over).await?;
                    let ids = new.iter().chain(over).map(|claim| &claim.id);
                    let found = self.found(&connection, &refused(ids, &written)).await?;
                    Ok((written, found))
                };
                (answer.await, connection)
            });
            let (written, mut found) = match request.await {
                Ok(answer) => answer,
                Err(error) => {
                    answers.extend(open.iter().map(|claim| (&claim.id, Err(error.clone()))));
                    break;
                }
            };
            let mut granted: HashMap<ItemId, _> = by_id(&written, rows::fence);
            open.retain(|claim| {
                let answer = match (granted.remove(&claim.id), found.remove(&claim.id)) {
                    (Some(fence), _) => fence.map(|fence| Claimed::Written { fence }),
                    (None, Some(found)) => found.map(|item| Claimed::Refused(Box::new(item))),
                    // The row that refused the claim, or that the claim had read, is gone.
                    (None, None) => return true,
                };
                answers.insert(&claim.id, answer);
                false
            });
            if open.is_empty() {
                break;
            }
        }
        let answer = |claim: &&Claim| answers.remove(&claim.id).unwrap_or_else(|| Err(restless()));
        claims.iter().map(answer).collect()
    }

    /// Sends one statement for each kind of settlement, pipelined, and reads the rows that refused. The settlements'
    /// keys must differ.
    async fn settle_each(&self, settlements: &[&Settlement]) -> Vec<Result<Settled, StoreError>> {
        let sorted = &match SortedOut::new(settlements) {
            Ok(sorted) => sorted,
            Err(error) => return vec![Err(error); settlements.len()],
        };
        let request = self.connections.request_alone(|connection| async move {
            let answer = async {
                let written = sorted.write(&self.statements, &connection).await?;
                let ids = settlements.iter().map(|settlement| &settlement.id);
                let found = self.found(&connection, &refused(ids, &written)).await?;
                Ok((written, found))
            };
            (answer.await, connection)
        });
        let (written, mut found) = match request.await {
            Ok(answer) => answer,
            Err(error) => return vec![Err(error); settlements.len()],
        };
        let written = by_id(&written, |_| Ok(()));
        let answer = |settlement: &&Settlement| {
            if written.contains_key(&settlement.id) {
                return Ok(Settled::Written);
            }
            let item = found.remove(&settlement.id).transpose()?;
            Ok(Settled::Refused(item.map(Box::new)))
        };
        settlements.iter().map(answer).collect()
    }

    /// Reads the items with these IDs. `ids` may be empty.
    pub(crate) async fn found(
        &self,
        client: &Client,
        ids: &[&str],
    ) -> Result<HashMap<ItemId, Result<Item, StoreError>>, Failure> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = self.statements.read(client, ids).await?;
        Ok(by_id(&rows, rows::item))
    }
}

impl Store for PostgresStore {
    fn identity(&self) -> Option<String> {
        let database = self.connections.database()?;
        Some([&*database, self.statements.of_table()].concat())
    }

    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for (places, claims) in waves(claims, |claim| &claim.id) {
                answers.extend(places.into_iter().zip(self.claim_each(&claims).await));
            }
            in_order(answers)
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for (places, settlements) in waves(settlements, |settlement| &settlement.id) {
                answers.extend(places.into_iter().zip(self.settle_each(&settlements).await));
            }
            in_order(answers)
        })
    }

    fn transactions(&self) -> Option<&dyn Transactions> {
        Some(self)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            let texts: Vec<_> = ids.iter().map(ItemId::as_str).collect();
            let texts = &*texts;
            let request = self.connections.request_alone(|connection| async move {
                (self.found(&connection, texts).await, connection)
            });
            let found = match request.await {
                Ok(found) => found,
                Err(error) => return vec![Err(error); ids.len()],
            };
            let found = ids.iter().map(|id| found.get(id).cloned().transpose());
            found.collect()
        })
    }
}

/// Splits a slice into waves without repeated IDs. Returns the indices of each wave's entries too.
fn waves<E>(entries: &[E], id: impl Fn(&E) -> &ItemId) -> Vec<(Vec<usize>, Vec<&E>)> {
    let mut waves: Vec<(Vec<_>, Vec<_>)> = Vec::new();
    let mut seen = HashMap::new();
    for (place, entry) in entries.iter().enumerate() {
        let wave = seen.entry(id(entry)).or_insert(0);
        if waves.len() == *wave {
            waves.push(Default::default());
        }
        waves[*wave].0.push(place);
        waves[*wave].1.push(entry);
        *wave += 1;
    }
    waves
}

fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Settlements grouped by the statement that writes them.
#[derive(Default)]
struct SortedOut<'a> {
    ends: Vec<End<'a>>,
    renewals: Vec<Renewal<'a>>,
    records: Vec<Unclaimed<'a>>,
    commits: Vec<Unclaimed<'a>>,
}

impl<'a> SortedOut<'a> {
    fn new(settlements: &[&'a Settlement]) -> Result<Self, StoreError> {
        let mut sorted = Self::default();
        for settlement in settlements.iter().copied() {
            match &settlement.settling {
                Settling::Complete {
                    expiration: at,
                    data,
                    ..
                } => {
                    sorted.ends.push((settlement, Some((*at, data.as_ref()))));
                }
                Settling::Release => sorted.ends.push((settlement, None)),
                Settling::Renew {
                    lease_until, fence, ..
                } => {
                    sorted.renewals.push((settlement, *lease_until, *fence));
                }
                Settling::CompleteUnclaimed(recording) => {
                    sorted.records.push((settlement, recording))
                }
                Settling::Commit(recording) => sorted.commits.push((settlement, recording)),
                _ => {
                    let problem = "this version of sqs-once-postgres does not know a settlement of this sqs-once: \
                         update both";
                    return Err(StoreError::new(StoreErrorKind::Other, problem));
                }
            }
        }
        Ok(sorted)
    }

    /// Sends all statements at once and returns a row with the ID of each written settlement.
    async fn write(&self, statements: &Statements, client: &Client) -> Result<Vec<Row>, Error> {
        let (ended, renewed, recorded, committed) = join4(
            statements.end(client, &self.ends),
            statements.renew(client, &self.renewals),
            Statements::write(client, &statements.record, &self.records),
            Statements::write(client, &statements.commit, &self.commits),
        )
        .await;
        Ok([ended?, renewed?, recorded?, committed?]
            .into_iter()
            .flatten()
            .collect())
    }
}

/// Returns the IDs without a written row.
fn refused<'a>(ids: impl Iterator<Item = &'a ItemId>, written: &[Row]) -> Vec<&'a str> {
    let written: HashMap<ItemId, _> = by_id(written, |_| Ok(()));
    ids.filter(|id| !written.contains_key(id))
        .map(ItemId::as_str)
        .collect()
}

pub(crate) fn by_id<T>(
    rows: &[Row],
    value: impl Fn(&Row) -> Result<T, StoreError>,
) -> HashMap<ItemId, Result<T, StoreError>> {
    // Every statement returns the ID as the first column, and only IDs from its parameters.
    let pairs = rows.iter();
    let pairs = pairs.filter_map(|row| Some((rows::id(row).ok()?, value(row))));
    pairs.collect()
}

fn restless() -> StoreError {
    let problem = "other workers claim and delete this key faster than this worker can claim it";
    StoreError::new(StoreErrorKind::Throttled, problem)
}
