//! The guide's statements that forget a key and unblock a message group, and deleting expired rows.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqs_once::conformance::Fixture;
use sqs_once::key::{ItemId, Namespace};
use sqs_once::policy::UnknownOutcome;
use sqs_once::store::{Fence, Item, Owner, Seen, Status, Timestamp};
use sqs_once::unstable::block::Block;
use sqs_once::{BusinessKey, Consumer, Handler};
use sqs_once_postgres::{DELETE_EXPIRED, Deleted};

use crate::orders::{ACKNOWLEDGED, Order, Orders, invoke};
use crate::support::{Database, MINUTE, connect};

const HOUR: Duration = Duration::from_secs(3600);

/// The guide's statement that contains `example`, for `real`.
fn statement(example: &str, real: &str) -> String {
    let page = include_str!("../../../../docs/operations.md");
    let mut statements = page.split("```").filter_map(|it| it.strip_prefix("sql\n"));
    let is_its = |it: &&str| it.starts_with("UPDATE") && it.matches(example).count() == 1;
    statements.find(is_its).unwrap().replace(example, real)
}

/// The statement that forgets the key of this item.
fn forget(item: &Item) -> String {
    statement("orders#3f9ab1c20d45e0…", item.id.as_str())
}

/// A row of a first attempt before 30 hours.
fn old(status: Status) -> Item {
    let now = Timestamp::now();
    let key = BusinessKey::new("o-1").unwrap();
    let mut item = Item::new(Namespace::new("orders").unwrap().item_id(&key), status);
    let first = now.as_millis() - (30 * HOUR).as_millis() as u64;
    item.fence = Some(Fence::from_stored(first));
    item.lease_until = Some(Timestamp::from_millis(first));
    item.expiration = Some(now + 30 * HOUR);
    item.owner = Some(Owner::from_bits(7));
    item.data = Some("1".into());
    item
}

/// A consumer that repeats no effect that is older than a day.
fn consumer(orders: &Orders) -> Consumer {
    let calls = orders.calls.clone();
    let keyed = Handler::json::<Order>().key(|order: &Order| order.id.clone());
    let handler = keyed.call(move |_: Order| {
        calls.fetch_add(1, Ordering::SeqCst);
        async {}
    });
    let policy = UnknownOutcome::dead_letter().token_valid_for(24 * HOUR);
    let handler = handler.namespace("orders").unknown_outcome(policy);
    Consumer::new(handler).store(orders.database.store.clone())
}

#[tokio::test]
async fn a_key_that_the_guides_statement_forgets_runs_as_a_first_attempt() {
    for (status, before) in [
        (Status::Completed, &ACKNOWLEDGED[..]),
        // Needs reconciliation.
        (Status::InProgress, &["o-1"]),
    ] {
        let orders = Orders::new().await;
        let (consumer, database) = (consumer(&orders), &orders.database);
        let planted = old(status);
        database.plant(planted.clone()).await;
        assert_eq!(invoke(&consumer, &["o-1"]).await, before);
        assert_eq!(orders.calls(), 0);

        database.run(&forget(&planted)).await;
        let forgotten = database.peek(&planted.id).await.unwrap();
        assert_ne!(forgotten.owner, planted.owner);
        assert_eq!(forgotten.data, None);
        assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
        assert_eq!(orders.calls(), 1);
        let item = database.peek(&planted.id).await.unwrap();
        assert_eq!(item.status, Status::Completed);
    }
}

#[tokio::test]
async fn the_guides_statement_takes_no_key_from_a_worker_and_lowers_no_fence() {
    let database = Database::new().await;
    let mut held = old(Status::InProgress);
    held.lease_until = Some(Timestamp::now() + MINUTE);
    database.plant(held.clone()).await;
    database.run(&forget(&held)).await;
    let found = database.peek(&held.id).await.unwrap();
    assert_eq!((found.owner, found.fence), (held.owner, held.fence));

    let mut ahead = old(Status::Completed);
    let fence = Fence::first(Timestamp::now() + 30 * HOUR);
    ahead.fence = Some(fence);
    database.plant(ahead.clone()).await;
    database.run(&forget(&ahead)).await;
    let found = database.peek(&ahead.id).await.unwrap();
    assert_eq!(found.fence, Some(fence.next()));
}

#[tokio::test]
async fn the_guides_statement_unblocks_one_message_group_and_refuses_what_is_decided_by_the_last_block()
 {
    let database = Database::new().await;
    let now = Timestamp::now();
    let blocks = ["customer-7", "customer-70"].map(|group| {
        let queue = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";
        let block = Block::begin(None, (queue, group), now);
        block.with("m-1").with("m-2").after_end(0).unwrap()
    });
    let items = blocks.map(|block| {
        block
            .claim(Owner::from_bits(7), now, Seen::Nothing)
            .write(None)
    });
    for item in &items {
        database.plant(item.clone()).await;
    }
    let unblock = statement("customer-7", "customer-7");
    database.run(&unblock).await;
    let [lifted, other] = items
        .each_ref()
        .map(async |item| database.peek(&item.id).await.unwrap());
    let (lifted, other) = (lifted.await, other.await);
    let block = Block::from_item(&lifted).unwrap();
    assert!(!block.stands());
    assert_eq!((block.places, block.ended), (2, 2));
    assert_eq!(lifted.fence, items[0].fence.map(Fence::next));
    assert_ne!(lifted.owner, items[0].owner);
    assert!(Block::from_item(&other).unwrap().stands());
}

fn batch(rows: u32) -> NonZeroU32 {
    NonZeroU32::new(rows).unwrap()
}

/// A row that expired this many hours ago. Its lease ended at the same time.
fn expired(name: &str, status: Status, hours: u64) -> Item {
    let at = Timestamp::from_secs(Timestamp::now().as_secs() - hours * 3600);
    let mut item = Item::new(ItemId::from_stored(name), status);
    item.lease_until = Some(at);
    item.expiration = Some(at);
    item
}

/// Adds one row of each kind to delete, and one of each kind to keep.
async fn plant(database: &Database) {
    let alive = Timestamp::now() + Duration::from_secs(60);
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
