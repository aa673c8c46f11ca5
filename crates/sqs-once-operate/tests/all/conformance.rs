//! The conformance suite on a table of the user's account, or without one in an embedded DynamoDB.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{DynamoDbStore, Item, Store};
use sqs_once_local::TableDescription;

/// The name of a table with the default layout. The region and the credentials are those that the AWS CLI finds.
const TABLE: &str = "SQS_ONCE_CONFORMANCE_TABLE";

struct Table {
    client: Client,
    name: String,
    store: DynamoDbStore,
}

impl Table {
    fn new(client: Client, name: String) -> Self {
        let store = DynamoDbStore::new(client.clone(), &name);
        Self {
            client,
            name,
            store,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_that_the_variable_names_keeps_every_promise_of_the_conformance_suite() {
    if let Ok(name) = std::env::var(TABLE) {
        let config = sqs_once_operate::sdk_config(None, None).await.unwrap();
        return conformance::run(&Table::new(Client::new(&config), name)).await;
    }
    let description = TableDescription::default();
    let (_dynamodb, client) = crate::client(&description).await;
    conformance::run(&Table::new(client, description.name)).await;
}

impl Fixture for Table {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        let put = self.client.put_item().table_name(&self.name);
        let put = put.set_item(Some(conformance::to_attributes(item)));
        put.send().await.unwrap();
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.name);
        let get = get.consistent_read(true).set_key(Some(key(id)));
        let attributes = get.send().await.unwrap().item?;
        let item = conformance::from_attributes(&attributes);
        Some(item.unwrap_or_else(|| panic!("undocumented attributes: {attributes:?}")))
    }

    async fn delete(&self, id: &ItemId) {
        let delete = self.client.delete_item().table_name(&self.name);
        let delete = delete.set_key(Some(key(id)));
        delete.send().await.unwrap();
    }
}

fn key(id: &ItemId) -> HashMap<String, AttributeValue> {
    let id = AttributeValue::S(id.as_str().to_owned());
    HashMap::from([("id".to_owned(), id)])
}
