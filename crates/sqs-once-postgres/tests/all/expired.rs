//! Deleting expired rows.

use std::num::NonZeroU32;
use std::time::Duration;

use sqs_once::conformance::Fixture;
use sqs_once::key::ItemId;
use sqs_once::store::{Item, Status};
use sqs_once::time::{Clock, SystemClock, Timestamp};
use sqs_once_postgres::{DELETE_EXPIRED, Deleted};

use crate::support::{Database, connect};

const HOUR: u64 = 3600;

fn batch(rows: u32) -> NonZeroU32 {
    NonZeroU32::new(rows).unwrap()
}

/// A row that expired this many hours ago. Its lease ended at the same time.
fn expired(name: &str, status: Status, hours: u64) -> Item {
    let at = Timestamp::from_secs(SystemClock.now().as_secs() - hours * HOUR);
    let mut item = Item::new(ItemId::from_stored(name), status);
    item.lease_until = Some(at);
    item.expiration = Some(at);
    item
}

/// Adds one row of each kind to delete, and one of each kind to keep.
async fn plant(database: &Database) {
    let alive = SystemClock.now() + Duration::from_secs(60);
    let mut no_lease = expired("goes: no lease", Status::InProgress, 24 * 40);
    no_lease.lease_until = None;
    let mut at_work = expired("stays: at work", Status::InProgress, 48);
    at_work.lease_until = Some(alive);
    let mut not_expired = expired("stays: not expired", Status::Completed, 48);
    not_expired.expiration = Some(alive);
    let mut for_ever = expired("stays: for ever", Status::Completed, 48);
    for_ever.expiration = None;
    for item in [
        expired("goes: completed", Status::Completed, 25),
        expired("goes: given up", Status::InProgress, 25),
        no_lease,
        expired("stays: a day is not over", Status::Completed, 23),
        expired("stays: not ours", Status::Unknown("PAUSED".to_owned()), 48),
        at_work,
        not_expired,
        for_ever,
    ] {
        database.plant(item).await;
    }
}

async fn ids(database: &Database) -> Vec<String> {
    let ids = "SELECT id FROM processed_events ORDER BY id";
    let rows = database.client.query(ids, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

const STAY: [&str; 5] = [
    "stays: a day is not over",
    "stays: at work",
    "stays: for ever",
    "stays: not expired",
    "stays: not ours",
];

#[tokio::test]
async fn what_expired_a_day_ago_is_deleted_and_nothing_else() {
    let database = Database::new().await;
    plant(&database).await;
    let deleted = database.store.delete_expired(batch(2)).await.unwrap();
    assert_eq!((deleted.rows, deleted.batches), (3, 2));
    assert_eq!(ids(&database).await, STAY);
    let deleted = database.store.delete_expired(batch(2)).await.unwrap();
    assert_eq!(deleted, Deleted::default());
}

#[tokio::test]
async fn the_statement_for_a_scheduler_does_the_same() {
    let database = Database::new().await;
    plant(&database).await;
    database.run(DELETE_EXPIRED).await;
    assert_eq!(ids(&database).await, STAY);
}

#[tokio::test]
async fn a_row_that_somebody_is_writing_is_left_for_the_next_time() {
    let database = Database::new().await;
    plant(&database).await;
    let writer = connect(&database.url).await;
    let write = "BEGIN; SELECT id FROM processed_events WHERE id = 'goes: completed' FOR UPDATE";
    writer.batch_execute(write).await.unwrap();
    let deleted = database.store.delete_expired(batch(1000)).await.unwrap();
    assert_eq!(deleted.rows, 2);
    writer.batch_execute("ROLLBACK").await.unwrap();
    let deleted = database.store.delete_expired(batch(1000)).await.unwrap();
    assert_eq!(deleted.rows, 1);
    assert_eq!(ids(&database).await, STAY);
}
