//! The public conformance suite on both stores, and a property that it cannot observe: the attributes' format.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use sqs_once::MemoryStore;
use sqs_once::conformance::{self, Fixture};
use sqs_once::idempotency::{Admission, Refusal, claim, on_claimed};
use sqs_once::store::{Settled, StoreErrorKind};
use sqs_once::time::Timestamp;

use crate::store_suite::support::{InMemory, OnDynamoDb, completion, ids, new_claims, settlements};

#[tokio::test]
async fn the_store_in_memory_keeps_every_promise() {
    conformance::run(&InMemory(MemoryStore::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_dynamodb_keeps_every_promise() {
    conformance::run(&OnDynamoDb::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_on_a_table_with_a_sort_key_and_other_names_keeps_every_promise() {
    conformance::run(&OnDynamoDb::with_other_layout().await).await;
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

#[tokio::test]
async fn a_completed_item_has_the_attributes_that_powertools_reads() {
    let table = OnDynamoDb::start().await;
    for count in [1, 2] {
        let claims = new_claims(count);
        table.store().claim(&claims).await;
        table
            .store()
            .settle(&settlements(&claims, &completion()))
            .await;
        let expected = HashMap::from([
            ("id".to_owned(), text(claims[0].id.as_str())),
            ("status".to_owned(), text("COMPLETED")),
            (
                "in_progress_expiration".to_owned(),
                number(4_102_444_860_000),
            ),
            ("expiration".to_owned(), number(4_102_448_400)),
            ("owner".to_owned(), text(&claims[0].owner.to_string())),
            ("fence".to_owned(), number(4_102_444_800_000)),
        ]);
        assert_eq!(table.get(&claims[0].id).await, Some(expected));
    }
}

#[tokio::test]
async fn an_item_that_powertools_completed_is_a_duplicate() {
    let table = OnDynamoDb::start().await;
    for (data, shown) in [
        (text("{\"receipt\":7}"), "{\"receipt\":7}"),
        (AttributeValue::Null(true), ""),
    ] {
        let claims = new_claims(2);
        table
            .put(HashMap::from([
                ("id".to_owned(), text(claims[1].id.as_str())),
                ("status".to_owned(), text("COMPLETED")),
                ("expiration".to_owned(), number(4_102_448_400)),
                (
                    "in_progress_expiration".to_owned(),
                    number(4_102_444_860_000),
                ),
                // The value that Powertools writes if it validates no payload.
                ("validation".to_owned(), text("")),
                ("data".to_owned(), data),
            ]))
            .await;
        let mut answers = table.store().claim(&claims).await;
        let admission = on_claimed(&claims[1], &answers.remove(1).unwrap());
        let data = Some(shown)
            .filter(|shown| !shown.is_empty())
            .map(Into::into);
        assert_eq!(admission, Admission::Refused(Refusal::Duplicate { data }));
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
        let completed = HashMap::from([
            ("id".to_owned(), text(claims[1].id.as_str())),
            ("status".to_owned(), text("COMPLETED")),
            (
                "expiration".to_owned(),
                AttributeValue::N(written.to_owned()),
            ),
        ]);
        table.put(completed).await;
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
        ("status", number(1)),
        ("in_progress_expiration", text("yesterday")),
        ("owner", text("me")),
        ("fence", text("1")),
        ("expiration", number(1)),
    ];
    for (name, value) in broken {
        let claims = new_claims(3);
        let mut item = HashMap::from([
            ("id".to_owned(), text(claims[1].id.as_str())),
            ("status".to_owned(), text("INPROGRESS")),
            ("in_progress_expiration".to_owned(), number(u64::MAX >> 1)),
            ("owner".to_owned(), text("0123456789abcdef0123456789abcdef")),
        ]);
        item.insert(name.to_owned(), value);
        if name == "expiration" {
            item.remove("status");
        }
        table.put(item.clone()).await;

        let answers = table.store().claim(&claims).await;
        assert!(
            answers[0].is_ok() && answers[2].is_ok(),
            "{name}: {answers:?}"
        );
        let error = answers[1].as_ref().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::BadItem, "{name}");
        let lone = table.store().claim(&claims[1..2]).await;
        assert_eq!(
            lone[0].as_ref().unwrap_err().kind(),
            StoreErrorKind::BadItem,
            "{name}"
        );
        let read = table.store().read(&ids(&claims)).await;
        assert!(read[0].is_ok() && read[2].is_ok(), "{name}: {read:?}");
        assert_eq!(
            read[1].as_ref().unwrap_err().kind(),
            StoreErrorKind::BadItem,
            "{name}"
        );
        let settled = table
            .store()
            .settle(&settlements(&claims, &completion()))
            .await;
        assert!(
            matches!(settled[0], Ok(Settled::Written)),
            "{name}: {settled:?}"
        );
        assert_eq!(
            settled[1].as_ref().unwrap_err().kind(),
            StoreErrorKind::BadItem,
            "{name}"
        );
        assert_eq!(table.get(&claims[1].id).await, Some(item), "{name}");
    }
}
