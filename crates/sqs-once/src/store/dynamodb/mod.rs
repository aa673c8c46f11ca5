//! The store on Amazon DynamoDB.
//!
//! The store sends a slice in requests of 25 statements (`BatchExecuteStatement`). Each statement has its own condition
//! and result. A single claim or settlement is one conditional `UpdateItem`. If keys of new claims already have an
//! item, one consistent read returns these items. A claim over a free item is an `UpdateItem` whose condition contains
//! the fence that was seen. If a refusal does not contain the item, a consistent read follows.
//!
//! A commit is one `TransactWriteItems`. If the handler's own writes failed, a consistent read of the key's item
//! follows, because the writes of a duplicate usually fail. A slice of commits shares transactions of up to 100 items. The
//! commits for which DynamoDB cancels a transaction are decided by their reasons, and the others are sent again.

mod errors;
mod layout;
#[cfg(feature = "unstable")]
pub(crate) mod operate;
mod packing;
mod statements;
mod table;
mod table_client;
mod transaction;
mod updates;
mod writes;

use std::iter;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryPartition;
use futures_util::future::join_all;

use crate::aws;
use crate::env::{not_set, process_env, read};
use crate::error::ConfigError;
use crate::key::ItemId;

use super::{
    Answers, AtomicWrites, Claim, Claimed, CommitFuture, Committed, Item, Seen, Settled,
    Settlement, Settling, Store, StoreFuture,
};
use layout::is_name;
use table::Table;
use table_client::{Retries, TableClient};

pub use layout::TableLayout;
pub use writes::{Conflict, Writes};

const STATEMENTS: usize = 25;
const READS: usize = 100;

/// Keeps items in a DynamoDB table with the partition key `id` (type S) and no sort key. For a table with another layout,
/// call [`DynamoDbStore::layout`]. Enable time to live on the attribute `expiration`.
///
/// The role needs `dynamodb:PartiQLInsert`, `dynamodb:PartiQLUpdate`, `dynamodb:UpdateItem` and `dynamodb:BatchGetItem`
/// on the table. For handlers that return [`Writes`], the documentation of `Writes` lists the actions on their own
/// tables.
///
/// A new key costs 2 write units: one for the claim and one for the completion. A duplicate costs 1 write unit, and a read
/// unit if its claim is sent in a batch. Items are well below 1 KB, unless completions have large values.
#[derive(Clone, Debug)]
pub struct DynamoDbStore {
    requests: Arc<TableClient>,
}

impl DynamoDbStore {
    /// Uses the table that the environment variable `SQS_ONCE_TABLE` names, and the SDK's settings for region,
    /// credentials and endpoint.
    ///
    /// Requests time out after 2 s, and after 8 s including retries. The deadline of the invocation may end them
    /// sooner.
    ///
    /// # Errors
    /// [`ConfigError`] if `SQS_ONCE_TABLE` is missing or malformed. The first request to the table is in
    /// [`Consumer::init`](crate::Consumer::init), or with the first message if `init` is not called.
    pub async fn from_env() -> Result<Self, ConfigError> {
        let table = table_from_env()?;
        let config = Builder::from(aws::config().await)
            // With the default partition, the store would share one retry budget with every other DynamoDB client in
            // the process. A throttled client would then starve it.
            .retry_partition(RetryPartition::new("sqs-once"))
            .retry_classifier(aws::SignAgain)
            .build();
        Ok(Self::new(Client::from_conf(config), table))
    }

    /// Uses `table` through your own client. Set attempt and operation timeouts on the client: the SDK sets none.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            requests: Arc::new(TableClient {
                client,
                table: Table::by_default(table.into()),
            }),
        }
    }

    /// Sets the table's layout: a sort key, or other names for its attributes. Default: the partition key `id`, no sort
    /// key, and the names that Powertools for AWS Lambda uses.
    ///
    /// ```no_run
    /// use sqs_once::DynamoDbStore;
    /// use sqs_once::store::TableLayout;
    ///
    /// # async fn store() -> Result<DynamoDbStore, sqs_once::Error> {
    /// // A single table for everything: partition key `pk`, sort key `sk`, time to live on `ttl`.
    /// let layout = TableLayout::default()
    ///     .partition_key("pk")
    ///     .sort_key("sk")
    ///     .partition_value("idempotency#payments")
    ///     .expiration("ttl");
    /// let store = DynamoDbStore::from_env().await?.layout(layout)?;
    /// # Ok(store)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] if a name is invalid or used twice, or if there is a sort key but no value for the partition
    /// key.
    pub fn layout(self, layout: TableLayout) -> Result<Self, ConfigError> {
        let requests = TableClient {
            client: self.requests.client.clone(),
            table: Table::new(self.requests.table.name.clone(), layout)?,
        };
        Ok(Self {
            requests: Arc::new(requests),
        })
    }
}

impl Store for DynamoDbStore {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            let claimed = match claims {
                [claim] if claim.seen == Seen::Nothing => {
                    vec![self.requests.claim_one(claim, Retries::AsConfigured).await]
                }
                _ => {
                    let chunks = claims.chunks(STATEMENTS);
                    flat(chunks.map(|chunk| self.requests.claim_batch(chunk))).await
                }
            };
            discreet(claimed, || claims.iter().map(|claim| claim.id.as_str()))
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let settled = match settlements {
                [settlement] => self.requests.settle_one(settlement).await,
                _ => {
                    let chunks = settlements.chunks(STATEMENTS);
                    flat(chunks.map(|chunk| self.requests.settle_batch(chunk))).await
                }
            };
            discreet(settled, || settlements.iter().flat_map(quotable))
        })
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(async move {
            let chunks = ids.chunks(READS);
            let read = chunks.map(|chunk| self.requests.read_batch(chunk, Retries::AsConfigured));
            discreet(flat(read).await, || ids.iter().map(ItemId::as_str))
        })
    }

    fn identity(&self) -> Option<String> {
        let TableClient { client, table } = &*self.requests;
        let region = client.config().region().map(AsRef::as_ref);
        Some(format!("{region:?} {} {:?}", table.name, table.key))
    }

    fn atomic_writes(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}

impl AtomicWrites for DynamoDbStore {
    fn commit<'a>(&'a self, settlement: &'a Settlement, writes: &'a Writes) -> CommitFuture<'a> {
        Box::pin(self.requests.commit((settlement, writes)))
    }

    fn commit_all<'a>(
        &'a self,
        commits: &'a [(&'a Settlement, &'a Writes)],
    ) -> StoreFuture<'a, Committed> {
        Box::pin(self.requests.commit_all(commits))
    }
}

/// Sends the requests of a slice concurrently, and returns their results in the order of the slice.
async fn flat<T, F>(requests: impl Iterator<Item = F>) -> Answers<T>
where
    F: Future<Output = Answers<T>>,
{
    join_all(requests).await.into_iter().flatten().collect()
}

/// Removes these values from errors, because DynamoDB may quote them and errors are logged.
fn discreet<'a, T, V: Iterator<Item = &'a str>>(
    answers: Answers<T>,
    values: impl Fn() -> V,
) -> Answers<T> {
    let answers = answers.into_iter();
    let answers = answers.map(|answer| answer.map_err(|error| error.without(values())));
    answers.collect()
}

/// Returns the confidential parts of a settlement: its id, which may show the key, and the completion's value.
fn quotable(settlement: &Settlement) -> impl Iterator<Item = &str> {
    let data = match &settlement.settling {
        Settling::Complete { data, .. } => data.as_deref(),
        Settling::CompleteUnclaimed(recording) | Settling::Commit(recording) => {
            recording.data.as_deref()
        }
        Settling::Release | Settling::Renew { .. } => None,
    };
    iter::once(settlement.id.as_str()).chain(data)
}

fn table_from_env() -> Result<String, ConfigError> {
    const VARIABLE: &str = "SQS_ONCE_TABLE";
    const EXPECTED: &str = "the name of the DynamoDB table that keeps the claims: 3 to 255 letters, digits, `_`, `-` and `.`";
    let table = read(&process_env, VARIABLE, EXPECTED, |text| {
        is_name(text, 3).then(|| text.to_owned())
    })?;
    table.ok_or_else(|| ConfigError::missing(VARIABLE, not_set(VARIABLE), EXPECTED))
}
