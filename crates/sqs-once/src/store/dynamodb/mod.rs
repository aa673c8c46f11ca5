//! The store on Amazon DynamoDB: the one module that knows its SDK.
//!
//! A slice travels in requests of 25 statements (`BatchExecuteStatement`), each statement with a
//! condition and a result of its own. A lone claim or settlement is one conditional `UpdateItem`. The items
//! of claims whose keys turn out to have one already are read together, consistently. A claim over an item that was
//! free is an `UpdateItem`, with the fence that was seen in its condition. A refusal that does not show the item which refused
//! is followed by a consistent read as well. A commit is one `TransactWriteItems`, and a consistent read where the
//! handler's own writes are what failed: a duplicate's do.

mod client;
mod errors;
mod layout;
mod operate;
mod statements;
mod table;
mod table_client;
mod transaction;
mod updates;
mod writes;

use std::iter;
use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use futures_util::future::{BoxFuture, join_all};

use crate::env::{process_env, read};
use crate::error::ConfigError;
use crate::key::ItemId;

use super::{
    AtomicWrites, Claim, Claimed, Committed, Item, Seen, Settled, Settlement, Settling, Store,
    StoreError, StoreFuture,
};
use table::Table;
use table_client::{Retries, TableClient};

pub use layout::{LayoutError, TableLayout};
pub use operate::{Listed, Listing, Page, PageStart};
pub use writes::{Conflict, WriteName, Writes, WritesError};

/// The most statements that DynamoDB takes in one request.
const STATEMENTS: usize = 25;
/// The most keys that DynamoDB takes in one read.
const READS: usize = 100;

/// Keeps claims in a DynamoDB table with the partition key `id` (type S) and no sort key, or in one that
/// has the layout that [`DynamoDbStore::layout`] sets. Enable time to live on its attribute `expiration`.
///
/// The role needs `dynamodb:PartiQLInsert`, `dynamodb:PartiQLUpdate`, `dynamodb:UpdateItem` and
/// `dynamodb:BatchGetItem` on the table. Handlers that return [`Writes`] need those actions on their own tables that
/// `Writes` names.
///
/// A new key costs 2 write units, one for the claim and one for the completion; a duplicate costs 1,
/// and a read unit where its claim travels with others. Items are well below 1 KB unless the handler records data.
#[derive(Clone, Debug)]
pub struct DynamoDbStore {
    requests: Arc<TableClient>,
}

impl DynamoDbStore {
    /// Uses the table that the environment variable `SQS_ONCE_TABLE` names, and the SDK's own
    /// settings for region, credentials and endpoint.
    ///
    /// TableClient time out after 2 s each and 8 s with their retries; the deadline of the invocation
    /// ends them sooner.
    ///
    /// # Errors
    /// [`ConfigError`] when `SQS_ONCE_TABLE` is missing or malformed. The table itself is first
    /// asked for by [`Consumer::init`](crate::Consumer::init), or else with the first record.
    pub async fn from_env() -> Result<Self, ConfigError> {
        let table = table_from_env()?;
        Ok(Self::new(client::from_env().await, table))
    }

    /// Uses `table` through a client of your own. Give it attempt and operation timeouts: the SDK
    /// sets none.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            requests: Arc::new(TableClient {
                client,
                table: Table::by_default(table.into()),
            }),
        }
    }

    /// Uses the table as `layout` describes it: with a sort key, or with other names for its attributes.
    /// Default: the partition key `id`, no sort key, and the names that Powertools for AWS Lambda uses.
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
    /// [`LayoutError`] when a name is not usable or used twice, when the partition and the sort key
    /// have one name for instance, or when a sort key comes without a value for the partition key.
    pub fn layout(self, layout: TableLayout) -> Result<Self, LayoutError> {
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
    fn commit<'a>(
        &'a self,
        settlement: &'a Settlement,
        writes: &'a Writes,
    ) -> BoxFuture<'a, Result<Committed, StoreError>> {
        Box::pin(self.requests.commit(settlement, writes))
    }
}

/// Sends the requests of a slice side by side, and puts their results in the slice's order.
async fn flat<T, F>(requests: impl Iterator<Item = F>) -> Vec<Result<T, StoreError>>
where
    F: Future<Output = Vec<Result<T, StoreError>>>,
{
    join_all(requests).await.into_iter().flatten().collect()
}

/// Errors without what DynamoDB may quote in them: they are logged.
fn discreet<'a, T, V: Iterator<Item = &'a str>>(
    answers: Vec<Result<T, StoreError>>,
    values: impl Fn() -> V,
) -> Vec<Result<T, StoreError>> {
    let answers = answers.into_iter();
    let told = answers.map(|answer| answer.map_err(|error| error.without(values())));
    told.collect()
}

/// The confidential parts of a settlement: its key, if it is readable, and its recorded data.
fn quotable(settlement: &Settlement) -> impl Iterator<Item = &str> {
    let data = match &settlement.settling {
        Settling::Complete { data, .. } => data.as_deref(),
        Settling::Record(recording) | Settling::Commit(recording) => recording.data.as_deref(),
        Settling::Release => None,
    };
    iter::once(settlement.id.as_str()).chain(data)
}

/// The table's name from the environment, which has no default.
fn table_from_env() -> Result<String, ConfigError> {
    const VARIABLE: &str = "SQS_ONCE_TABLE";
    const EXPECTED: &str = "the name of the DynamoDB table that keeps the claims: 3 to 255 letters, digits, `_`, `-` and `.`";
    let table = read(&process_env, VARIABLE, EXPECTED, |text| {
        let fits = (3..=255).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        fits.then(|| text.to_owned())
    })?;
    table.ok_or_else(|| ConfigError::new(VARIABLE, "is not set", EXPECTED))
}
