//! The stores under test and their raw items.

use std::process::{Command, Output};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use sqs_once::DynamoDbStore;
use sqs_once::conformance::Fixture;
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Item, MemoryStore, Settlement, Settling, Store, TableLayout, UnclaimedCompletion,
};
use sqs_once_local::{KeyAttribute, LocalDynamoDb, TableDescription};

pub(crate) use crate::store_suite::claims::{
    NOW, completion, is_written, new_claims, rivals, settlements,
};
use crate::support::dynamodb::{self, local};
use crate::support::process::this_program;
use crate::support::wire::{Turn, Wire};

pub(crate) const TABLE: &str = "sqs-once";
pub(crate) const BATCH: &str = "BatchExecuteStatement";
pub(crate) const READ: &str = "BatchGetItem";
pub(crate) const UPDATE: &str = "UpdateItem";

/// The SDK's client, with pauses so short that a retry does not slow a test.
pub(crate) fn client(endpoint: &str, attempt_timeout: Duration) -> Client {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(attempt_timeout);
    let retries = RetryConfig::standard().with_max_attempts(3);
    let config = dynamodb::config(endpoint)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .timeout_config(timeouts.build())
        .retry_config(retries.with_initial_backoff(Duration::from_millis(1)))
        // Tests that fail on purpose must not use up the retries of other tests.
        .retry_partition(RetryPartition::new(endpoint.to_owned()));
    Client::from_conf(config.build())
}

pub(crate) fn store_at(endpoint: &str) -> DynamoDbStore {
    DynamoDbStore::new(client(endpoint, Duration::from_secs(30)), TABLE)
}

pub(crate) struct InMemory<S> {
    store: S,
    items: MemoryStore,
}

impl<S: Store> InMemory<S> {
    pub(crate) fn new(store: impl FnOnce(MemoryStore) -> S) -> Self {
        let items = MemoryStore::new();
        let store = store(items.clone());
        Self { store, items }
    }
}

impl<S: Store> Fixture for InMemory<S> {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        self.items.put(item);
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        self.items.get(id)
    }

    async fn delete(&self, id: &ItemId) {
        self.items.remove(id);
    }
}

/// The DynamoDB store. Tests write and read its items by their documented attribute names.
pub(crate) struct OnDynamoDb {
    pub(crate) local: LocalDynamoDb,
    pub(crate) client: Client,
    store: DynamoDbStore,
    /// Whether the table has the layout of [`other_layout`].
    other: bool,
}

type Set = fn(TableLayout, &str) -> TableLayout;

/// The settings of names, with their values in [`other_layout`]. Each value but the first is another attribute's default
/// name, so a name used by mistake exists and has the wrong content.
pub(crate) const NAMES: [(&str, &str, Set); 9] = [
    ("partition_key", PARTITION_KEY, |it, name| {
        it.partition_key(name)
    }),
    ("sort_key", "owner", |it, name| it.sort_key(name)),
    ("status", "fence", |it, name| it.status(name)),
    ("in_progress_expiration", "expiration", |it, name| {
        it.in_progress_expiration(name)
    }),
    ("expiration", "in_progress_expiration", |it, name| {
        it.expiration(name)
    }),
    ("validation", "data", |it, name| it.validation(name)),
    ("data", "status", |it, name| it.data(name)),
    ("owner", "validation", |it, name| it.owner(name)),
    ("fence", "id", |it, name| it.fence(name)),
];
const PARTITION_KEY: &str = "1-p.K_";
const PARTITION_VALUE: &str = "all \"of\" 'them'";

/// A table with a sort key in which every attribute has another name.
pub(crate) fn other_layout() -> TableLayout {
    let layout = TableLayout::default().partition_value(PARTITION_VALUE);
    let names = NAMES.iter();
    names.fold(layout, |layout, (_, name, set)| set(layout, name))
}

/// The attributes' documented names, and those in [`other_layout`]. The sort key is the documented `id`.
fn other_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMES[1..].iter().map(|(setting, other, _)| match *setting {
        "sort_key" => ("id", *other),
        documented => (documented, *other),
    })
}

/// A store of a table with the default layout, or with [`other_layout`].
fn laid_out_at(endpoint: &str, other: bool) -> DynamoDbStore {
    match other {
        true => store_at(endpoint).layout(other_layout()).unwrap(),
        false => store_at(endpoint),
    }
}

pub(crate) fn other_table() -> TableDescription {
    TableDescription {
        partition_key: KeyAttribute::string(PARTITION_KEY),
        sort_key: Some(KeyAttribute::string("owner")),
        ttl_attribute: Some("in_progress_expiration".to_owned()),
        ..TableDescription::default()
    }
}

impl OnDynamoDb {
    pub(crate) async fn start() -> Self {
        Self::on(&TableDescription::default(), false).await
    }

    pub(crate) async fn with_other_layout() -> Self {
        Self::on(&other_table(), true).await
    }

    async fn on(table: &TableDescription, other: bool) -> Self {
        let local = local(table).await;
        Self {
            client: client(&local.endpoint(), Duration::from_secs(30)),
            store: laid_out_at(&local.endpoint(), other),
            local,
            other,
        }
    }

    /// Renames an item's attributes from their documented names to the table's names.
    fn laid_out(&self, mut item: Value) -> Value {
        if !self.other {
            return item;
        }
        let attributes = item.as_object_mut().unwrap();
        let renamed = other_names().filter_map(|(old, new)| Some((new, attributes.remove(old)?)));
        let mut renamed: Value = renamed.collect();
        renamed[PARTITION_KEY] = json!({ "S": PARTITION_VALUE });
        renamed
    }

    /// Renames an item's attributes back to their documented names.
    fn documented(&self, mut item: Value) -> Value {
        if !self.other {
            return item;
        }
        let attributes = item.as_object_mut().unwrap();
        let partition = attributes.remove(PARTITION_KEY);
        assert_eq!(partition, Some(json!({ "S": PARTITION_VALUE })));
        let renamed = other_names().filter_map(|(new, old)| Some((new, attributes.remove(old)?)));
        let renamed = renamed.collect();
        assert!(attributes.is_empty(), "unknown attributes: {attributes:?}");
        renamed
    }

    fn key(&self, id: &ItemId) -> Value {
        self.laid_out(json!({ "id": { "S": id.as_str() } }))
    }

    /// Puts an item in DynamoDB's JSON without a request, which takes a fraction of the time.
    pub(crate) fn put(&self, item: Value) {
        self.local.put_item(TABLE, self.laid_out(item)).unwrap();
    }

    pub(crate) fn get(&self, id: &ItemId) -> Option<Value> {
        let item = self.local.item(TABLE, self.key(id)).unwrap()?;
        Some(self.documented(item))
    }
}

impl Fixture for OnDynamoDb {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        let attributes = serde_dynamo::Item::from(sqs_once::unstable::to_attributes(item));
        self.put(serde_json::to_value(attributes).unwrap());
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let attributes: serde_dynamo::Item = serde_json::from_value(self.get(id)?).unwrap();
        let item = sqs_once::unstable::from_attributes(&attributes.clone().into());
        Some(item.unwrap_or_else(|| panic!("undocumented attributes: {attributes:?}")))
    }

    async fn delete(&self, id: &ItemId) {
        let key = self.key(id);
        let key = key.as_object().unwrap().iter().map(|(name, value)| {
            let value = value["S"].as_str().unwrap().to_owned();
            (name.clone(), AttributeValue::S(value))
        });
        let delete = self.client.delete_item().table_name(TABLE);
        delete.set_key(Some(key.collect())).send().await.unwrap();
    }
}

pub(crate) struct Networked {
    pub(crate) table: OnDynamoDb,
    pub(crate) wire: Wire,
    pub(crate) store: DynamoDbStore,
}

impl Networked {
    /// Sets a turn for each of the first requests.
    pub(crate) async fn with(turns: impl IntoIterator<Item = Turn>) -> Self {
        let networked = Self::on(OnDynamoDb::start().await).await;
        networked.wire.next(turns);
        networked
    }

    /// A table with the default layout, and one with another.
    pub(crate) async fn both() -> [Self; 2] {
        let other = OnDynamoDb::with_other_layout().await;
        [Self::with([]).await, Self::on(other).await]
    }

    async fn on(table: OnDynamoDb) -> Self {
        let wire = Wire::to(&table.local.endpoint()).await;
        let store = laid_out_at(&wire.endpoint(), table.other);
        Self { table, wire, store }
    }

    pub(crate) async fn items(&self, claims: &[Claim]) -> Vec<Option<Item>> {
        let mut items = Vec::new();
        for claim in claims {
            items.push(self.table.peek(&claim.id).await);
        }
        items
    }

    /// Writes claims without the network and returns their items.
    pub(crate) async fn taken(&self, claims: &[Claim]) -> Vec<Item> {
        self.table.store().claim(claims).await;
        let items = self.items(claims).await.into_iter();
        items.map(Option::unwrap).collect()
    }

    /// Completes claims without the network.
    pub(crate) async fn complete(&self, claims: &[Claim]) {
        let done = settlements(claims, &completion());
        self.table.store().settle(&done).await;
    }
}

/// An error of DynamoDB, with these fields in addition.
pub(crate) fn refused(code: &str, mut with: Value) -> Turn {
    with["__type"] = format!("com.amazonaws.dynamodb.v20120810#{code}").into();
    Turn::Answer(400, with.to_string())
}

/// A commit of the first key.
pub(crate) fn commit_of(claims: &[Claim]) -> Settlement {
    settlements(claims, &Settling::Commit(recorded())).remove(0)
}

pub(crate) fn new_commit() -> Settlement {
    commit_of(&new_claims(1))
}

pub(crate) fn ids(claims: &[Claim]) -> Vec<ItemId> {
    claims.iter().map(|claim| claim.id.clone()).collect()
}

pub(crate) fn recording() -> Settling {
    Settling::CompleteUnclaimed(recorded())
}

fn recorded() -> UnclaimedCompletion {
    UnclaimedCompletion::new(NOW, NOW + Duration::from_secs(3600))
}

/// This test in another process, with a function's environment and the table at this endpoint.
pub(crate) fn process_with_table(module: &str, test: &str, endpoint: &str) -> Command {
    let mut process = this_program(module, test);
    process
        .env("SQS_ONCE_TABLE", TABLE)
        .env("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local");
    process
}

pub(crate) async fn output(mut process: Command) -> Output {
    let ended = tokio::task::spawn_blocking(move || process.output());
    ended.await.unwrap().unwrap()
}
