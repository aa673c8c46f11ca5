//! Keys as users see and change them, in an embedded DynamoDB.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use sqs_once::key::{ItemId, Namespace};
use sqs_once::store::{
    Claim, Claimed, Fence, Item, Owner, Settled, Settlement, Settling, Status, Store, TableLayout,
    Timestamp,
};
use sqs_once::unstable::{self, Listing, new_owner};
use sqs_once::{BusinessKey, DynamoDbStore};
use sqs_once_local::{KeyAttribute, LocalDynamoDb, TableDescription};
use sqs_once_operate::{Change, Error, KeyName, Keys, NameError, State};

use crate::{dynamodb, payments, put};

const NOW: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An empty table.
struct Table {
    dynamodb: LocalDynamoDb,
    store: DynamoDbStore,
    keys: Keys,
}

impl Table {
    async fn new() -> Self {
        Self::with(TableDescription::default(), TableLayout::default()).await
    }

    async fn with_sort_key() -> Self {
        let table = TableDescription {
            partition_key: KeyAttribute::string("pk"),
            sort_key: Some(KeyAttribute::string("sk")),
            ..TableDescription::default()
        };
        let layout = TableLayout::default()
            .partition_key("pk")
            .sort_key("sk")
            .partition_value("idempotency#payments")
            .owner("lock_owner");
        Self::with(table, layout).await
    }

    async fn with(table: TableDescription, layout: TableLayout) -> Self {
        let (dynamodb, store) = dynamodb(&table).await;
        let store = store.layout(layout).unwrap();
        Self {
            dynamodb,
            keys: Keys::new(store.clone()),
            store,
        }
    }

    fn put(&self, item: Value) {
        put(&self.dynamodb, item);
    }

    fn stored(&self, id: &str) -> Value {
        let item = self.dynamodb.item("sqs-once", json!({"id": {"S": id}}));
        item.unwrap().unwrap()
    }

    /// A claimed key, and its item.
    async fn claimed(&self) -> (ItemId, Item) {
        let order = id("order-42");
        self.claim(&order, 1, NOW).await;
        let item = self.item(&order).await;
        (order, item)
    }

    async fn claim(&self, id: &ItemId, owner: u128, now: Timestamp) -> Claimed {
        let (owner, lease_until) = (Owner::from_bits(owner), now + Duration::from_secs(30));
        let claim = Claim::new(id.clone(), owner, now, lease_until, now + 28 * DAY);
        let mut claimed = sqs_once::unstable::claim(&self.store, &[claim]).await;
        claimed.remove(0).unwrap()
    }

    async fn settle(&self, id: &ItemId, owner: u128, settling: Settling) -> Settled {
        let settlement = Settlement::new(id.clone(), Owner::from_bits(owner), settling);
        self.store.settle(&[settlement]).await.remove(0).unwrap()
    }

    async fn complete(&self, id: &ItemId, owner: u128) -> Settled {
        let completion = Settling::complete(NOW + 28 * DAY, Some("\"a result\"".into()));
        self.settle(id, owner, completion).await
    }

    async fn item(&self, id: &ItemId) -> Item {
        let ids = [id.clone()];
        let [item] = self.keys.read(&ids).await.unwrap().try_into().unwrap();
        item
    }

    async fn change(&self, change: Change, seen: &Item) -> Settled {
        self.change_of(change, &seen.id, Some(seen)).await
    }

    async fn change_of(&self, change: Change, id: &ItemId, seen: Option<&Item>) -> Settled {
        let owner = new_owner();
        let new = change.write(id, seen, owner, NOW).unwrap();
        self.keys.replace(seen, &new).await.unwrap()
    }

    /// The IDs under which a key is found.
    async fn find(&self, words: &[&str]) -> Vec<String> {
        let name = KeyName::read(words).unwrap();
        let found = self.keys.find(&name, Some(&payments())).await.unwrap();
        let mut ids: Vec<_> = found.iter().map(|item| item.id.to_string()).collect();
        ids.sort();
        ids
    }
}

fn id<K: sqs_once::key::KeyPart + ?Sized>(key: &K) -> ItemId {
    payments().item_id(&BusinessKey::new(key).unwrap())
}

fn forever() -> Change {
    Change::Complete {
        expiration: NOW + 365 * DAY,
    }
}

#[tokio::test]
async fn a_key_is_found_as_its_consumer_has_made_it() {
    let table = Table::new().await;
    let (order, of_two) = (id("order-42"), id(&("tenant-7", 42_u32)));
    let bytes = id(&(vec![0_u8, 255], true));
    let (text, integer, large) = (id("42"), id(&42), id(&u128::MAX));
    for id in [&order, &of_two, &bytes, &text, &integer, &large] {
        table.claim(id, 1, NOW).await;
    }
    let most = u128::MAX.to_string();
    for (words, expected) in [
        (&["order-42"][..], &[&order][..]),
        (&["s:order-42"], &[&order]),
        (&["order-43"], &[]),
        (&["tenant-7", "42"], &[&of_two]),
        (&["tenant-7", "i:42"], &[&of_two]),
        (&["tenant-7", "s:42"], &[]),
        (&["x:00ff", "true"], &[&bytes]),
        (&["42"], &[&text, &integer]),
        (&["s:42"], &[&text]),
        (&["i:42"], &[&integer]),
        (&["042"], &[]),
        (&[&most], &[&large]),
    ] {
        let mut expected: Vec<_> = expected.iter().map(|id| id.to_string()).collect();
        expected.sort();
        assert_eq!(table.find(words).await, expected, "{words:?}");
    }
}

#[tokio::test]
async fn a_key_is_found_by_its_id_and_by_what_log_lines_show_of_it() {
    for table in [Table::new().await, Table::with_sort_key().await] {
        let hashed = id("order-42");
        let readable = payments().readable_keys(true);
        let readable = readable.item_id(&BusinessKey::new("order-43").unwrap());
        for id in [&hashed, &readable, &id("order-44")] {
            table.claim(id, 1, NOW).await;
        }
        for id in [&hashed, &readable] {
            assert_eq!(table.find(&[id.as_str()]).await, [id.as_str()]);
            assert_eq!(table.find(&[&id.short()]).await, [id.as_str()]);
        }
        assert_eq!(table.find(&["order-43"]).await, [readable.as_str()]);
        assert!(table.find(&["payments#0123456789ab"]).await.is_empty());
    }
}

#[test]
fn words_that_are_not_a_key_are_refused() {
    let read = |words: &[&str]| KeyName::read(words);
    assert_eq!(read(&[]), Err(NameError::Nothing));
    assert_eq!(read(&["a"; 7]), Err(NameError::TooManyParts));
    for word in ["i:many", "i:", "b:maybe", "x:0", "x:+1", "x:zz", "x:é"] {
        let read = read(&[word]);
        assert!(matches!(read, Err(NameError::Part { .. })), "{word}");
    }
    assert!(read(&[""]).unwrap().keys().is_err());
    let looks_like_an_id = "a#0123456789ab";
    assert!(matches!(read(&[looks_like_an_id]), Ok(KeyName::Id(_))));
    let text = format!("s:{looks_like_an_id}");
    let key = BusinessKey::new(looks_like_an_id).unwrap();
    assert_eq!(read(&[&text]).unwrap().keys(), Ok(vec![key]));
}

#[tokio::test]
async fn a_listing_reaches_every_item_over_all_of_its_pages() {
    for table in [Table::new().await, Table::with_sort_key().await] {
        for order in 0..8 {
            let id = id(&order);
            table.claim(&id, 1, NOW).await;
            let data = format!("\"{}\"", "x".repeat(250 * 1024));
            let completion = Settling::complete(NOW + DAY, Some(data.into()));
            table.settle(&id, 1, completion).await;
        }
        let other = Namespace::new("other").unwrap();
        let other = other.item_id(&BusinessKey::new("order").unwrap());
        table.claim(&other, 1, NOW).await;

        let count = async |prefix: &str, status: Option<Status>| {
            let prefix = prefix.to_owned();
            let mut count = 0;
            let each = |_| {
                count += 1;
                Ok::<_, Error>(true)
            };
            let listing = Listing { prefix, status };
            table.keys.walk(&listing, each).await.unwrap();
            count
        };
        let first = unstable::page(&table.store, &Listing::default(), None)
            .await
            .unwrap();
        assert!(first.next.is_some(), "one page of 2 MB");
        assert_eq!(count("", None).await, 9);
        assert_eq!(count("payments#", None).await, 8);
        assert_eq!(count("", Some(Status::Completed)).await, 8);
        assert_eq!(count("", Some(Status::InProgress)).await, 1);
    }
}

#[tokio::test]
async fn a_forgotten_key_runs_again_under_a_larger_fence() {
    for table in [Table::new().await, Table::with_sort_key().await] {
        let order = id("order-42");
        let Claimed::Written { fence: first } = table.claim(&order, 1, NOW).await else {
            panic!("a new key");
        };
        table.complete(&order, 1).await;
        let seen = table.item(&order).await;

        let changed = table.change(Change::Forget, &seen).await;
        let now = table.item(&order).await;
        assert_eq!(changed, Settled::Written);
        assert_eq!(State::from_item(&now, NOW), State::Released);
        assert_eq!(now.data, None);
        assert!(now.fence > Some(first));
        let Claimed::Written { fence } = table.claim(&order, 2, NOW).await else {
            panic!("the key is free");
        };
        assert!(Some(fence) > now.fence);
    }
}

#[test]
fn the_next_attempt_at_a_forgotten_key_is_a_first_one() {
    let order = id("order-42");
    let mut seen = Item::new(order.clone(), Status::InProgress);
    seen.fence = Some(Fence::first(NOW));
    let later = NOW + 2 * DAY;
    let forgotten = Change::Forget.write(&order, Some(&seen), Owner::from_bits(9), later);
    // The fence tells when the key was first attempted.
    assert_eq!(forgotten.unwrap().fence, Some(Fence::first(later)));
}

#[tokio::test]
async fn an_earlier_owner_can_not_complete_or_release_a_forgotten_key() {
    let table = Table::new().await;
    let (order, seen) = table.claimed().await;
    table.change(Change::Forget, &seen).await;
    let forgotten = table.item(&order).await;

    let completed = table.complete(&order, 1).await;
    let released = table.settle(&order, 1, Settling::Release).await;
    for settled in [completed, released] {
        assert!(matches!(settled, Settled::Refused(_)), "{settled:?}");
    }
    assert_eq!(table.item(&order).await, forgotten);
}

#[tokio::test]
async fn a_completed_key_is_a_duplicate_whoever_was_working_on_it() {
    let table = Table::new().await;
    let (order, seen) = table.claimed().await;
    table.change(forever(), &seen).await;

    let Settled::Refused(Some(item)) = table.complete(&order, 1).await else {
        panic!("the owner from before");
    };
    // The consumer acknowledges, since the key is completed.
    assert_eq!(State::from_item(&item, NOW), State::Completed);
    assert_eq!(item.expiration, Some(NOW + 365 * DAY));
    let Claimed::Refused(item) = table.claim(&order, 2, NOW + 100 * DAY).await else {
        panic!("a duplicate");
    };
    assert_eq!(item.status, Status::Completed);
}

#[tokio::test]
async fn a_key_that_never_came_can_be_completed_and_need_not_be_forgotten() {
    let table = Table::new().await;
    let order = id("order-42");
    let forgotten = Change::Forget.write(&order, None, Owner::from_bits(9), NOW);
    assert_eq!(forgotten, None);
    let completed = table.change_of(forever(), &order, None).await;
    assert_eq!(completed, Settled::Written);
    let claimed = table.claim(&order, 1, NOW).await;
    assert!(matches!(claimed, Claimed::Refused(_)));

    // The item appeared after the read.
    let completed = table.change_of(forever(), &order, None).await;
    assert!(matches!(completed, Settled::Refused(Some(_))));
}

#[test]
fn completing_what_is_completed_never_lets_it_end_sooner() {
    // A completion without an expiry never expires.
    for expiration in [None, Some(NOW + 365 * DAY)] {
        let mut seen = Item::new(id("order-42"), Status::Completed);
        seen.expiration = expiration;
        let sooner = Change::Complete {
            expiration: NOW + DAY,
        };
        let completed = sooner.write(&seen.id, Some(&seen), Owner::from_bits(9), NOW);
        assert_eq!(completed.unwrap().expiration, expiration);
    }
}

#[tokio::test]
async fn a_change_is_refused_when_anything_of_what_was_seen_has_changed() {
    let table = Table::new().await;
    let (order, there) = table.claimed().await;
    let different: [fn(&mut Item); 9] = [
        |item| item.status = Status::Completed,
        |item| item.owner = Some(Owner::from_bits(7)),
        |item| item.owner = None,
        |item| item.fence = item.fence.map(Fence::next),
        |item| item.fence = None,
        |item| item.lease_until = Some(NOW),
        |item| item.lease_until = None,
        |item| item.expiration = Some(NOW),
        |item| item.expiration = None,
    ];
    for differ in different {
        let mut seen = there.clone();
        differ(&mut seen);
        for change in [Change::Forget, forever()] {
            let refused = Settled::Refused(Some(Box::new(there.clone())));
            assert_eq!(table.change(change, &seen).await, refused, "{seen:?}");
        }
    }
    let mut gone = there.clone();
    gone.id = id("order-43");
    let refused = table.change(Change::Forget, &gone).await;
    assert_eq!(refused, Settled::Refused(None));
    assert_eq!(table.item(&order).await, there);
}

/// Powertools for AWS Lambda writes neither owner nor fence, and may write NULL.
#[tokio::test]
async fn records_of_powertools_are_found_and_changed() {
    let table = Table::new().await;
    let id = "payments.handler#0123456789abcdef0123456789abcdef";
    table.put(json!({
        "id": {"S": id}, "status": {"S": "COMPLETED"}, "expiration": {"N": "1790003600"},
        "data": {"S": "{}"}, "validation": {"S": ""}, "in_progress_expiration": {"NULL": true},
    }));
    assert_eq!(table.find(&[id]).await, [id]);
    assert_eq!(table.find(&["payments.handler#0123456789ab"]).await, [id]);
    let seen = table.item(&ItemId::from_stored(id)).await;
    assert_eq!((seen.owner, seen.fence), (None, None));
    let changed = table.change(Change::Forget, &seen).await;
    assert_eq!(changed, Settled::Written);
    let stored = table.stored(id);
    // Powertools reads only these two: in progress, with an expired lease.
    assert_eq!(stored["status"]["S"], "INPROGRESS");
    assert_eq!(stored["in_progress_expiration"]["N"], "0");
    assert_eq!(stored["validation"]["S"], "");
    assert_eq!(stored["data"], Value::Null);
}

/// Powertools for TypeScript wrote fractions of a second until 2.1.
#[tokio::test]
async fn a_key_whose_expiration_has_a_fraction_of_a_second_can_be_changed_and_keeps_the_rest() {
    let table = Table::new().await;
    table.put(json!({
        "id": {"S": "payments#1"}, "status": {"S": "COMPLETED"}, "note": {"S": "keep"},
        "expiration": {"N": "4102448400.123"},
    }));
    let seen = table.item(&ItemId::from_stored("payments#1")).await;
    let changed = table.change(forever(), &seen).await;
    assert_eq!(changed, Settled::Written);
    assert_eq!(table.stored("payments#1")["note"]["S"], "keep");
    // It has changed since.
    let refused = table.change(forever(), &seen).await;
    assert!(matches!(refused, Settled::Refused(_)));
}

/// The SDK repeats a request whose answer is lost.
#[tokio::test]
async fn a_change_that_is_sent_twice_is_written() {
    let table = Table::new().await;
    let (order, seen) = table.claimed().await;
    let new = forever().write(&order, Some(&seen), Owner::from_bits(99), NOW);
    let new = new.unwrap();
    for _ in 0..2 {
        let settled = table.keys.replace(Some(&seen), &new).await.unwrap();
        assert_eq!(settled, Settled::Written);
    }
}

fn any_item() -> impl Strategy<Value = Item> {
    let status = prop_oneof![
        Just(Status::InProgress),
        Just(Status::Completed),
        Just(Status::Unknown("EXPIRED".to_owned())),
    ];
    // The second and the millisecond before, at and after the current time.
    let moment = prop_oneof![
        Just(0),
        NOW.as_millis() - 2000..NOW.as_millis() + 2000,
        Just(NOW.as_millis()),
    ];
    let moment = moment.prop_map(Timestamp::from_millis);
    let moments = (prop::option::of(moment.clone()), prop::option::of(moment));
    (status, moments).prop_map(|(status, (lease_until, expiration))| {
        let mut item = Item::new(id("order"), status);
        item.lease_until = lease_until;
        item.expiration = expiration.map(|at| Timestamp::from_secs(at.as_secs()));
        item
    })
}

proptest! {
    /// proptest prints the item.
    #[test]
    fn what_is_called_free_is_what_a_claim_gets(item in any_item()) {
        let claim = Claim::new(item.id.clone(), Owner::from_bits(1), NOW, NOW + DAY, NOW + DAY);
        let state = State::from_item(&item, NOW);
        let is_free = matches!(state, State::Lapsed | State::Released | State::Expired);
        prop_assert_eq!(claim.finds_free(&item), is_free);
    }
}
