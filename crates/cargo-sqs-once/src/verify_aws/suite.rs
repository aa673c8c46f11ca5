//! The public conformance suite of stores, on a real table.

use super::error::VerifyError;
use sqs_once::aws_sdk_dynamodb::Client;
use sqs_once::aws_sdk_dynamodb::types::AttributeValue;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{DynamoDbStore, Item, Store};
use std::any::Any;
use std::collections::HashMap;
use tokio::task::JoinSet;

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
        let attributes = conformance::to_attributes(item);
        let put = put.set_item(Some(attributes)).send().await;
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
            let read = conformance::from_attributes(&attributes);
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

fn key(id: &ItemId) -> HashMap<String, AttributeValue> {
    let id = AttributeValue::S(id.as_str().to_owned());
    HashMap::from([("id".to_owned(), id)])
}
