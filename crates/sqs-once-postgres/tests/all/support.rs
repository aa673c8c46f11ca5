//! Databases with the table, and their items.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postgres_for_tests::Server;
use sqs_once::conformance::Fixture;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{Claim, Fence, Item, Owner, Settlement, Settling, Status, Store};
use sqs_once::time::Timestamp;
use sqs_once_postgres::{PostgresStore, SCHEMA_V1};
use tokio_postgres::{Client, NoTls};

pub(crate) const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);

/// The server of the tests that do not kill it.
pub(crate) fn server() -> &'static Server {
    static SERVER: LazyLock<Server> = LazyLock::new(Server::start_without_fsync);
    &SERVER
}

/// A connection in addition to the store's.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A database with the table and a store.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) store: PostgresStore,
}

impl Database {
    pub(crate) async fn new() -> Self {
        Self::on(server()).await
    }

    pub(crate) async fn on(server: &Server) -> Self {
        let url = server.create_database();
        let client = connect(&url).await;
        client.batch_execute(SCHEMA_V1).await.unwrap();
        let store = PostgresStore::from_url(&url).unwrap();
        Self { url, client, store }
    }
}

impl Fixture for Database {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        self.delete(&item.id).await;
        let status = match &item.status {
            Status::InProgress => "INPROGRESS",
            Status::Completed => "COMPLETED",
            Status::Unknown(status) => status,
        };
        let number = |number: u64| i64::try_from(number).unwrap();
        let insert = "INSERT INTO processed_events
            (id, status, in_progress_expiration, expiration, validation, data, owner, fence)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        self.client
            .execute(
                insert,
                &[
                    &item.id.as_str(),
                    &status,
                    &item.lease_until.map(|at| number(at.as_millis())),
                    &item.expiration.map(|at| number(at.as_secs())),
                    &item.fingerprint.as_ref().map(Fingerprint::as_str),
                    &item.data.as_ref().map(|data| data.as_bytes()),
                    &item.owner.map(|owner| owner.to_string()),
                    &item.fence.map(|fence| number(fence.get())),
                ],
            )
            .await
            .unwrap();
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let select =
            "SELECT status, in_progress_expiration, expiration, validation, data, owner, fence
            FROM processed_events WHERE id = $1";
        let row = self
            .client
            .query_opt(select, &[&id.as_str()])
            .await
            .unwrap()?;
        let number = |column| {
            let number: Option<i64> = row.get(column);
            number.map(|number| u64::try_from(number).unwrap())
        };
        let text = |column| row.get::<_, Option<String>>(column);
        let data: Option<Vec<u8>> = row.get("data");
        Some({
            let mut item = Item::new(
                id.clone(),
                match text("status").unwrap().as_str() {
                    "INPROGRESS" => Status::InProgress,
                    "COMPLETED" => Status::Completed,
                    other => Status::Unknown(other.to_owned()),
                },
            );
            item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
            item.expiration = number("expiration").map(Timestamp::from_secs);
            item.fingerprint = text("validation").map(Fingerprint::from_stored);
            item.data = data.map(|data| String::from_utf8(data).unwrap().into());
            item.owner = text("owner").map(|owner| Owner::from_stored(&owner).unwrap());
            item.fence = number("fence").map(Fence::from_stored);
            item
        })
    }

    async fn delete(&self, id: &ItemId) {
        let delete = "DELETE FROM processed_events WHERE id = $1";
        self.client.execute(delete, &[&id.as_str()]).await.unwrap();
    }
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

pub(crate) fn completion() -> Settling {
    Settling::complete(NOW + Duration::from_secs(3600), None)
}

pub(crate) fn settlement(claim: &Claim, settling: Settling) -> Settlement {
    Settlement::new(claim.id.clone(), claim.owner, settling)
}
