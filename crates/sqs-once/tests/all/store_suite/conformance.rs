//! The public conformance suite on both stores, and a property that it cannot observe: the attributes' format.

use std::sync::Arc;

use serde_json::{Value, json};
use sqs_once::Consumer;
use sqs_once::conformance::{self, Fixture};
use sqs_once::store::{Claim, MemoryStore, Settled, Store, StoreError, StoreErrorKind, Timestamp};
use sqs_once::unstable::{Admission, Refusal, claim, fresh_seeds, on_claimed};

use crate::store_suite::support::{InMemory, OnDynamoDb, completion, ids, new_claims, settlements};
use crate::support::{Order, orders};

#[tokio::test]
async fn the_store_in_memory_keeps_every_promise_also_where_it_is_chosen_at_runtime() {
    let chosen = |items| Arc::new(items) as Arc<dyn Store>;
    conformance::run(&InMemory::new(chosen)).await;
    let consumer = orders().call(async |_: Order| {}).namespace("test");
    let consumer = Consumer::new(consumer).store(chosen(MemoryStore::new()));
    consumer.init().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_dynamodb_keeps_every_promise() {
    conformance::run(&OnDynamoDb::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_a_table_with_a_sort_key_and_other_names_keeps_every_promise() {
    conformance::run(&OnDynamoDb::with_other_layout().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_dynamodb_keeps_the_promises_in_random_histories() {
    conformance::histories(&OnDynamoDb::start().await, fresh_seeds(10)).await;
}

/// The item with the ID of a claim, in DynamoDB's JSON.
fn of(claim: &Claim, mut item: Value) -> Value {
    item["id"] = json!({ "S": claim.id.as_str() });
    item
}

#[tokio::test]
async fn a_completed_item_has_the_attributes_that_powertools_reads() {
    let table = OnDynamoDb::start().await;
    for count in [1, 2] {
        let claims = new_claims(count);
        table.store().claim(&claims).await;
        let done = settlements(&claims, &completion());
        table.store().settle(&done).await;
        let expected = json!({
            "status": { "S": "COMPLETED" },
            "in_progress_expiration": { "N": "4102444860000" },
            "expiration": { "N": "4102448400" },
            "owner": { "S": claims[0].owner.to_string() },
            "fence": { "N": "4102444800000" },
        });
        let expected = of(&claims[0], expected);
        assert_eq!(table.get(&claims[0].id), Some(expected));
    }
}

/// Powertools for TypeScript wrote fractions of a second until 2.1.
#[tokio::test]
async fn an_expiration_with_a_fraction_of_a_second_is_rounded_up() {
    let table = OnDynamoDb::start().await;
    for (written, seconds) in [
        ("4102448400.123", 4_102_448_401),
        ("4102448400.9999999", 4_102_448_401),
        ("4102448400.0", 4_102_448_400),
        ("0.5", 1),
    ] {
        let claims = new_claims(2);
        let completed = json!({ "status": { "S": "COMPLETED" }, "expiration": { "N": written } });
        table.put(of(&claims[1], completed));
        let read = table.store().read(&ids(&claims[1..])).await;
        let item = read[0].as_ref().unwrap().as_ref().unwrap();
        let expires = Timestamp::from_secs(seconds);
        assert_eq!(item.expiration, Some(expires), "{written}");
        let answers = claim(table.store(), &claims).await;
        let admission = on_claimed(&claims[1], answers[1].as_ref().unwrap());
        let is_refused = matches!(admission, Admission::Refused(Refusal::Duplicate { .. }));
        assert_eq!(is_refused, expires > claims[1].now, "{written}");
    }
}

#[tokio::test]
async fn an_item_with_attributes_of_other_types_fails_alone_and_is_not_taken_over() {
    let table = OnDynamoDb::start().await;
    let broken = [
        ("status", json!({ "N": "1" })),
        ("in_progress_expiration", json!({ "S": "yesterday" })),
        ("owner", json!({ "S": "me" })),
        ("fence", json!({ "S": "1" })),
        // Without a status.
        ("expiration", json!({ "N": "1" })),
    ];
    for (name, value) in broken {
        let claims = new_claims(3);
        let mut item = json!({
            "status": { "S": "INPROGRESS" },
            "in_progress_expiration": { "N": (u64::MAX >> 1).to_string() },
            "owner": { "S": "0123456789abcdef0123456789abcdef" },
        });
        item[name] = value;
        if name == "expiration" {
            item.as_object_mut().unwrap().remove("status");
        }
        let item = of(&claims[1], item);
        table.put(item.clone());

        let bad_item =
            |error: &StoreError| assert_eq!(error.kind(), StoreErrorKind::BadItem, "{name}");
        let store = table.store();
        let answers = store.claim(&claims).await;
        let are_known = answers[0].is_ok() && answers[2].is_ok();
        assert!(are_known, "{name}: {answers:?}");
        bad_item(answers[1].as_ref().unwrap_err());
        bad_item(store.claim(&claims[1..2]).await[0].as_ref().unwrap_err());
        let read = store.read(&ids(&claims)).await;
        assert!(read[0].is_ok() && read[2].is_ok(), "{name}: {read:?}");
        bad_item(read[1].as_ref().unwrap_err());
        let settled = store.settle(&settlements(&claims, &completion())).await;
        assert_eq!(*settled[0].as_ref().unwrap(), Settled::Written, "{name}");
        bad_item(settled[1].as_ref().unwrap_err());
        assert_eq!(table.get(&claims[1].id), Some(item), "{name}");
    }
}
