//! The public conformance suite of stores, on a real table.

use super::error::VerifyError;
use sqs_once::aws_sdk_dynamodb::Client;
use sqs_once::aws_sdk_dynamodb::types::AttributeValue;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{DynamoDbStore, Fence, Item, Owner, Status, Store};
use sqs_once::time::Timestamp;
use std::any::Any;
use std::collections::HashMap;
use tokio::task::JoinSet;

type Attributes = HashMap<String, AttributeValue>;

struct Table {
    client: Client,
    name: String,
    store: DynamoDbStore,
}

/// Runs the suite. The inner error is the promise that the table broke.
pub(super) async fn run(client: &Client, table: &str) -> Result<(), String> {
    let table = Table {
        client: client.clone(),
        name: table.to_owned(),
        store: DynamoDbStore::new(client.clone(), table),
    };
    // The suite panics, and a task turns the panic into an error. Dropping the set ends the task.
    let mut task = JoinSet::new();
    task.spawn(async move { conformance::run(&table).await });
    match task.join_next().await {
        Some(Ok(())) => Ok(()),
        None => Err("the suite did not run".to_owned()),
        Some(Err(error)) => Err(match error.try_into_panic() {
            Ok(panic) => message(&*panic),
            Err(error) => error.to_string(),
        }),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

impl Fixture for Table {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        let put = self.client.put_item().table_name(&self.name);
        let put = put.set_item(Some(attributes(item))).send().await;
        answered(
            "dynamodb:PutItem",
            put.map_err(|error| VerifyError::of_sdk("dynamodb:PutItem", error)),
        );
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let get = self
            .client
            .get_item()
            .table_name(&self.name)
            .consistent_read(true);
        let get = get.set_key(Some(key(id))).send().await;
        let get = get.map_err(|error| VerifyError::of_sdk("dynamodb:GetItem", error));
        answered("dynamodb:GetItem", get).item.map(|attributes| {
            let read = item(&attributes);
            read.unwrap_or_else(|| panic!("an item has undocumented attributes: {attributes:?}"))
        })
    }

    async fn delete(&self, id: &ItemId) {
        let delete = self.client.delete_item().table_name(&self.name);
        let delete = delete.set_key(Some(key(id))).send().await;
        let delete = delete.map_err(|error| VerifyError::of_sdk("dynamodb:DeleteItem", error));
        answered("dynamodb:DeleteItem", delete);
    }
}

/// The suite's functions have no errors, so it ends with a panic if DynamoDB does not answer.
fn answered<T>(action: &str, answer: Result<T, VerifyError>) -> T {
    answer.unwrap_or_else(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        panic!(
            "the suite could not go on: {action}: {error}: {}",
            cause.unwrap_or_default()
        )
    })
}

fn key(id: &ItemId) -> Attributes {
    let id = AttributeValue::S(id.as_str().to_owned());
    HashMap::from([("id".to_owned(), id)])
}

/// Writes an item by the documented names, independently of the store.
fn attributes(item: Item) -> Attributes {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let number = |value: u64| AttributeValue::N(value.to_string());
    let status = match &item.status {
        Status::InProgress => "INPROGRESS",
        Status::Completed => "COMPLETED",
        Status::Unknown(status) => status,
    };
    let lease = item.lease_until.map(|at| number(at.as_millis()));
    let all = [
        ("id", Some(text(item.id.as_str()))),
        ("status", Some(text(status))),
        ("in_progress_expiration", lease),
        ("expiration", item.expiration.map(|at| number(at.as_secs()))),
        ("validation", item.fingerprint.map(|it| text(it.as_str()))),
        ("data", item.data.map(|data| text(&data))),
        ("owner", item.owner.map(|owner| text(&owner.to_string()))),
        ("fence", item.fence.map(|fence| number(fence.get()))),
    ];
    let all = all.into_iter();
    all.filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Reads an item by the documented names. `None` if an attribute has another name or type.
fn item(attributes: &Attributes) -> Option<Item> {
    let text = |name| attributes.get(name).and_then(|value| value.as_s().ok());
    let number = |name: &str| attributes.get(name)?.as_n().ok()?.parse::<u64>().ok();
    let status = match text("status")?.as_str() {
        "INPROGRESS" => Status::InProgress,
        "COMPLETED" => Status::Completed,
        other => Status::Unknown(other.to_owned()),
    };
    let mut item = Item::new(ItemId::from_stored(text("id")?.clone()), status);
    item.fingerprint = text("validation").cloned().map(Fingerprint::from_stored);
    item.data = text("data").map(|data| data.as_str().into());
    item.owner = text("owner").and_then(|owner| Owner::from_stored(owner).ok());
    item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
    item.expiration = number("expiration").map(Timestamp::from_secs);
    item.fence = number("fence").map(Fence::from_stored);
    // Nothing may be lost: the item must write the same attributes.
    (self::attributes(item.clone()) == *attributes).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written() {
        let mut full = Item::new(ItemId::from_stored("k#1".to_owned()), Status::Completed);
        full.lease_until = Some(Timestamp::from_millis(1_234));
        full.expiration = Some(Timestamp::from_secs(99));
        full.fingerprint = Some(Fingerprint::from_stored("f".to_owned()));
        full.data = Some("d".into());
        full.owner = Some(Owner::from_bits(7));
        full.fence = Some(Fence::from_stored(3));
        let bare = Item::new(ItemId::from_stored("k#2".to_owned()), Status::InProgress);
        for written in [full, bare] {
            assert_eq!(item(&attributes(written.clone())), Some(written));
        }
    }

    #[test]
    fn an_item_with_another_attribute_or_type_is_refused() {
        let bare = Item::new(ItemId::from_stored("k#1".to_owned()), Status::InProgress);
        let mut more = attributes(bare.clone());
        more.insert("other".to_owned(), AttributeValue::S(String::new()));
        assert_eq!(item(&more), None);
        let mut mistyped = attributes(bare);
        mistyped.insert("fence".to_owned(), AttributeValue::S("1".to_owned()));
        assert_eq!(item(&mistyped), None);
    }
}
