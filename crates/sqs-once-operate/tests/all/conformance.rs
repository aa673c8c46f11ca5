//! The conformance suite on a table of the user's account. Region and credentials are those that the AWS CLI finds.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use sqs_once::DynamoDbStore;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{Item, Store};

/// A table with the default layout.
struct Table {
    client: Client,
    name: String,
    store: DynamoDbStore,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a table of the user's account"]
async fn the_table_that_the_variable_names_keeps_every_promise_of_the_conformance_suite() {
    let name = std::env::var("SQS_ONCE_CONFORMANCE_TABLE").unwrap();
    let config = sqs_once_operate::sdk_config(None, None).await.unwrap();
    let client = Client::new(&config);
    let store = DynamoDbStore::new(client.clone(), &name);
    let table = Table {
        client,
        name,
        store,
    };
    conformance::run(&table).await;
}

impl Fixture for Table {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        let put = self.client.put_item().table_name(&self.name);
        let put = put.set_item(Some(sqs_once::unstable::to_attributes(item)));
        put.send().await.unwrap();
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let get = self.client.get_item().table_name(&self.name);
        let get = get.consistent_read(true).set_key(Some(key(id)));
        let attributes = get.send().await.unwrap().item?;
        let item = sqs_once::unstable::from_attributes(&attributes);
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
