//! Databases with the table, and their items.

use std::sync::LazyLock;
use std::time::Duration;

use postgres_for_tests::Server;
use sqs_once::conformance::Fixture;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{
    Claim, Fence, Item, OpenTransaction, Owner, Settlement, Settling, Status, Store, Timestamp,
    Transactions,
};
use sqs_once_postgres::{PostgresStore, SCHEMA_V1};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

pub(crate) use crate::claims::{NOW, completion, is_written, new_claims, rivals, settlements};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

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
        let url = server().create_database();
        let client = connect(&url).await;
        client.batch_execute(SCHEMA_V1).await.unwrap();
        let store = PostgresStore::from_url(&url).unwrap();
        Self { url, client, store }
    }

    /// Runs statements.
    pub(crate) async fn run(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// Sets a default of the database's later sessions.
    pub(crate) async fn set(&self, setting: &str) {
        let name: String = {
            let name = "SELECT quote_ident(current_database())";
            self.client.query_one(name, &[]).await.unwrap().get(0)
        };
        self.run(&format!("ALTER DATABASE {name} SET {setting}"))
            .await;
    }

    /// Ends the store's sessions. PostgreSQL reports a session's statistics at the latest when the session ends.
    pub(crate) async fn end_sessions(&self) {
        let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE application_name = 'sqs-once' AND datname = current_database()";
        self.client.query(end, &[]).await.unwrap();
    }

    /// Returns the numbers in the row that a query selects.
    pub(crate) async fn numbers<const N: usize>(&self, query: &str) -> [i64; N] {
        let row = self.client.query_one(query, &[]).await.unwrap();
        std::array::from_fn(|column| row.get(column))
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
        let values: [&(dyn ToSql + Sync); 8] = [
            &item.id.as_str(),
            &status,
            &item.lease_until.map(|at| number(at.as_millis())),
            &item.expiration.map(|at| number(at.as_secs())),
            &item.fingerprint.as_ref().map(Fingerprint::as_str),
            &item.data.as_ref().map(|data| data.as_bytes()),
            &item.owner.map(|owner| owner.to_string()),
            &item.fence.map(|fence| number(fence.get())),
        ];
        self.client.execute(insert, &values).await.unwrap();
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let select =
            "SELECT status, in_progress_expiration, expiration, validation, data, owner, fence
            FROM processed_events WHERE id = $1";
        let row = self.client.query_opt(select, &[&id.as_str()]).await;
        let row = row.unwrap()?;
        let number = |column| {
            let number: Option<i64> = row.get(column);
            number.map(|number| u64::try_from(number).unwrap())
        };
        let text = |column| row.get::<_, Option<String>>(column);
        let data: Option<Vec<u8>> = row.get("data");
        let status = match text("status").unwrap().as_str() {
            "INPROGRESS" => Status::InProgress,
            "COMPLETED" => Status::Completed,
            other => Status::Unknown(other.to_owned()),
        };
        let mut item = Item::new(id.clone(), status);
        item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
        item.expiration = number("expiration").map(Timestamp::from_secs);
        item.fingerprint = text("validation").map(Fingerprint::from_stored);
        item.data = data.map(|data| String::from_utf8(data).unwrap().into());
        item.owner = text("owner").map(|owner| Owner::from_stored(&owner).unwrap());
        item.fence = number("fence").map(Fence::from_stored);
        Some(item)
    }

    async fn delete(&self, id: &ItemId) {
        let delete = "DELETE FROM processed_events WHERE id = $1";
        self.client.execute(delete, &[&id.as_str()]).await.unwrap();
    }
}

/// Returns the sessions that wait for a lock, once there are this many.
pub(crate) async fn until_waiting(client: &Client, sessions: usize) -> Vec<i32> {
    until(client, "wait_event_type = 'Lock'", sessions).await
}

/// Waits until no other session runs a statement. One that waits for a lock is not counted as waiting in the moment in
/// which it looks for deadlocks.
pub(crate) async fn until_idle(client: &Client) {
    until(
        client,
        "state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
        0,
    )
    .await;
}

/// Waits until this many sessions of the database are in a state, and returns their process ids.
async fn until(client: &Client, state: &str, sessions: usize) -> Vec<i32> {
    let there =
        format!("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND {state}");
    let as_many = async {
        loop {
            let there = client.query(&there, &[]).await.unwrap();
            if there.len() == sessions {
                return there.iter().map(|row| row.get(0)).collect();
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), as_many).await;
    ended.unwrap_or_else(|_| panic!("there are never {sessions} sessions with {state}"))
}

/// A claim of the same key by another worker.
pub(crate) fn rival(claim: &Claim) -> Claim {
    rivals(std::slice::from_ref(claim)).remove(0)
}

/// Begins a transaction that contains a claim, which must be granted.
pub(crate) async fn open(store: &PostgresStore, claim: &Claim) -> Box<dyn OpenTransaction> {
    let claims = std::slice::from_ref(claim);
    let begun = store.begin(claims, MINUTE, MINUTE).await.unwrap();
    begun.transaction.expect("the key is new")
}

pub(crate) fn settlement(claim: &Claim, settling: Settling) -> Settlement {
    Settlement::new(claim.id.clone(), claim.owner, settling)
}
