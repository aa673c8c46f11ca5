#[path = "../as_lambda.rs"]
mod as_lambda;

use std::sync::Arc;

use object_store::{ObjectStoreExt, memory::InMemory};
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{Item, Store};
use sqs_once::testing::Record;

use super::consumer;
use super::store::{Bucket, path};

fn bucket() -> Bucket {
    Bucket(Arc::new(InMemory::new()))
}

impl Fixture for Bucket {
    fn store(&self) -> &dyn Store {
        self
    }

    async fn plant(&self, item: Item) {
        let planted = self.change(&item.id, |_| true, |_| item.clone()).await;
        planted.unwrap().unwrap();
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        self.read(id).await.unwrap().map(|(item, _)| item)
    }

    async fn delete(&self, id: &ItemId) {
        let _ = self.0.delete(&path(id)).await; // there may be no such object
    }
}

#[tokio::test]
async fn the_store_keeps_its_promises() {
    conformance::run(&bucket()).await;
}

#[tokio::test]
async fn an_order_that_comes_twice_is_shipped_once_and_one_that_fails_returns() {
    let consumer = consumer(bucket());
    let sample = || Record::text(include_str!("event.json"));
    assert!(as_lambda::run(&consumer, [sample()]).await.is_empty());

    // Only a copy of the first is a duplicate: another order with its key fails.
    let copy = sample().message_id("copy");
    let other = Record::text(r#"{"order_id": "o-1001", "pieces": 3}"#).message_id("other");
    let empty = Record::text(r#"{"order_id": "o-2", "pieces": 0}"#).message_id("empty");
    let returned = as_lambda::run(&consumer, [copy, other, empty]).await;
    assert_eq!(returned, ["other", "empty"]);
}
