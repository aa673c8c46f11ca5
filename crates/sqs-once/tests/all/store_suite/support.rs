//! The stores under test and their raw items.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use sqs_once::conformance::Fixture;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::TableLayout;
use sqs_once::store::{
    Claim, DynamoDbStore, Fence, Item, MemoryStore, Owner, Recording, Settlement, Settling, Status,
    Store,
};
use sqs_once::time::Timestamp;
use sqs_once_local::{KeyAttribute, LocalDynamoDb, TableDescription};

type Attributes = HashMap<String, AttributeValue>;

pub(crate) const TABLE: &str = "sqs-once";
pub(crate) const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);

/// The SDK's client, with pauses so short that a retry does not slow a test.
pub(crate) fn client(endpoint: &str, attempt_timeout: Duration) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(endpoint)
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .timeout_config(
            TimeoutConfig::builder()
                .operation_attempt_timeout(attempt_timeout)
                .build(),
        )
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(3)
                .with_initial_backoff(Duration::from_millis(1)),
        )
        // Tests that fail on purpose must not use up the retries of other tests.
        .retry_partition(RetryPartition::new(endpoint.to_owned()))
        .build();
    Client::from_conf(config)
}

pub(crate) fn store_at(endpoint: &str) -> DynamoDbStore {
    DynamoDbStore::new(client(endpoint, Duration::from_secs(30)), TABLE)
}

pub(crate) async fn dynamodb(table: &TableDescription) -> LocalDynamoDb {
    let local = LocalDynamoDb::memory().await.unwrap();
    local.create_table(table).unwrap();
    local
}

pub(crate) struct InMemory(pub(crate) MemoryStore);

impl Fixture for InMemory {
    fn store(&self) -> &dyn Store {
        &self.0
    }

    async fn plant(&self, item: Item) {
        self.0.put(item);
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        self.0.get(id)
    }

    async fn delete(&self, id: &ItemId) {
        self.0.remove(id);
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

/// The attributes' names in [`other_layout`]. Each is another attribute's default name, so a name used by mistake
/// exists and has the wrong content.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("id", "owner"),
    ("status", "fence"),
    ("in_progress_expiration", "expiration"),
    ("expiration", "in_progress_expiration"),
    ("validation", "data"),
    ("data", "status"),
    ("owner", "validation"),
    ("fence", "id"),
];
const PARTITION_KEY: &str = "1-p.K_";
const PARTITION_VALUE: &str = "all \"of\" 'them'";

/// A table with a sort key in which every attribute has another name.
pub(crate) fn other_layout() -> TableLayout {
    let name = |documented| {
        let found = OTHER_NAMES.iter().find(|(name, _)| *name == documented);
        found.unwrap().1
    };
    TableLayout::default()
        .partition_key(PARTITION_KEY)
        .partition_value(PARTITION_VALUE)
        .sort_key(name("id"))
        .status(name("status"))
        .in_progress_expiration(name("in_progress_expiration"))
        .expiration(name("expiration"))
        .validation(name("validation"))
        .data(name("data"))
        .owner(name("owner"))
        .fence(name("fence"))
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
        let local = dynamodb(table).await;
        let mut started = Self {
            client: client(&local.endpoint(), Duration::from_secs(30)),
            store: store_at(&local.endpoint()),
            local,
            other,
        };
        started.store = started.store_at(&started.local.endpoint());
        started
    }

    /// A store for this table at another endpoint.
    pub(crate) fn store_at(&self, endpoint: &str) -> DynamoDbStore {
        let store = store_at(endpoint);
        if self.other {
            store.layout(other_layout()).unwrap()
        } else {
            store
        }
    }

    /// Renames attributes from their documented names to the table's names.
    fn laid_out(&self, mut attributes: Attributes) -> Attributes {
        if !self.other {
            return attributes;
        }
        let renamed = OTHER_NAMES.iter().filter_map(|(documented, name)| {
            Some(((*name).to_owned(), attributes.remove(*documented)?))
        });
        let mut renamed: Attributes = renamed.collect();
        let value = AttributeValue::S(PARTITION_VALUE.to_owned());
        renamed.insert(PARTITION_KEY.to_owned(), value);
        renamed
    }

    /// Renames attributes back to their documented names.
    fn documented(&self, mut attributes: Attributes) -> Attributes {
        if !self.other {
            return attributes;
        }
        let value = AttributeValue::S(PARTITION_VALUE.to_owned());
        assert_eq!(attributes.remove(PARTITION_KEY), Some(value));
        let renamed = OTHER_NAMES.iter().filter_map(|(documented, name)| {
            Some(((*documented).to_owned(), attributes.remove(*name)?))
        });
        let renamed = renamed.collect();
        assert!(attributes.is_empty(), "unknown attributes: {attributes:?}");
        renamed
    }

    fn key(&self, id: &ItemId) -> Attributes {
        let id = AttributeValue::S(id.as_str().to_owned());
        self.laid_out(HashMap::from([("id".to_owned(), id)]))
    }

    pub(crate) async fn put(&self, attributes: Attributes) {
        let put = self.client.put_item().table_name(TABLE);
        let attributes = self.laid_out(attributes);
        put.set_item(Some(attributes)).send().await.unwrap();
    }

    pub(crate) async fn get(&self, id: &ItemId) -> Option<Attributes> {
        let get = self.client.get_item().table_name(TABLE);
        let get = get.set_key(Some(self.key(id))).consistent_read(true);
        let item = get.send().await.unwrap().item?;
        Some(self.documented(item))
    }
}

impl Fixture for OnDynamoDb {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        self.put(attributes(item)).await;
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        self.get(id).await.map(item)
    }

    async fn delete(&self, id: &ItemId) {
        let delete = self.client.delete_item().table_name(TABLE);
        let delete = delete.set_key(Some(self.key(id)));
        delete.send().await.unwrap();
    }
}

fn attributes(item: Item) -> Attributes {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let number = |value: u64| AttributeValue::N(value.to_string());
    let status = match &item.status {
        Status::InProgress => "INPROGRESS",
        Status::Completed => "COMPLETED",
        Status::Unknown(status) => status,
    };
    [
        ("id", Some(text(item.id.as_str()))),
        ("status", Some(text(status))),
        (
            "in_progress_expiration",
            item.lease_until.map(|at| number(at.as_millis())),
        ),
        ("expiration", item.expiration.map(|at| number(at.as_secs()))),
        (
            "validation",
            item.fingerprint
                .map(|fingerprint| text(fingerprint.as_str())),
        ),
        ("data", item.data.map(|data| text(&data))),
        ("owner", item.owner.map(|owner| text(&owner.to_string()))),
        ("fence", item.fence.map(|fence| number(fence.get()))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

fn item(mut attributes: Attributes) -> Item {
    let mut text = |name: &str| match attributes.remove(name) {
        Some(AttributeValue::S(text)) => Some(text),
        None => None,
        other => panic!("`{name}` is not a text: {other:?}"),
    };
    let (id, status) = (text("id").unwrap(), text("status").unwrap());
    let (fingerprint, data, owner) = (text("validation"), text("data"), text("owner"));
    let mut number = |name: &str| match attributes.remove(name) {
        Some(AttributeValue::N(number)) => Some(number.parse::<u64>().unwrap()),
        None => None,
        other => panic!("`{name}` is not a number: {other:?}"),
    };
    let item = {
        let mut item = Item::new(
            ItemId::from_stored(id),
            match status.as_str() {
                "INPROGRESS" => Status::InProgress,
                "COMPLETED" => Status::Completed,
                _ => Status::Unknown(status),
            },
        );
        item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
        item.expiration = number("expiration").map(Timestamp::from_secs);
        item.fingerprint = fingerprint.map(Fingerprint::from_stored);
        item.data = data.map(Into::into);
        item.owner = owner.map(|owner| Owner::from_stored(&owner).unwrap());
        item.fence = number("fence").map(Fence::from_stored);
        item
    };
    assert!(
        attributes.is_empty(),
        "undocumented attributes: {attributes:?}"
    );
    item
}

/// Claims of keys that no other test uses.
pub(crate) fn new_claims(count: usize) -> Vec<Claim> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    (0..count)
        .map(|_| {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            Claim::new(
                ItemId::from_stored(format!("tests#{n:064x}")),
                Owner::from_bits(n.into()),
                NOW,
                NOW + Duration::from_secs(60),
                NOW + Duration::from_secs(3600),
            )
        })
        .collect()
}

/// Claims of the same keys by another worker, a moment later.
pub(crate) fn rivals(claims: &[Claim]) -> Vec<Claim> {
    new_claims(claims.len())
        .into_iter()
        .zip(claims)
        .map(|(rival, claim)| {
            let mut changed = rival;
            changed.id = claim.id.clone();
            changed
        })
        .collect()
}

pub(crate) fn settlements(claims: &[Claim], settling: &Settling) -> Vec<Settlement> {
    claims
        .iter()
        .map(|claim| Settlement::new(claim.id.clone(), claim.owner, settling.clone()))
        .collect()
}

pub(crate) fn ids(claims: &[Claim]) -> Vec<ItemId> {
    claims.iter().map(|claim| claim.id.clone()).collect()
}

pub(crate) fn completion() -> Settling {
    Settling::complete(NOW + Duration::from_secs(3600), None)
}

pub(crate) fn recording() -> Settling {
    Settling::Record(recorded())
}

pub(crate) fn commit() -> Settling {
    Settling::Commit(recorded())
}

fn recorded() -> Recording {
    Recording::new(NOW, NOW + Duration::from_secs(3600))
}
