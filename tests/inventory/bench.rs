//! The real binary, set up by its own template, and an embedded DynamoDB.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once_local::{BatchResponse, Event, Function, Launch, LocalDynamoDb, RecordLine, Template};

/// Long enough for a loaded machine; no test waits for it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Bench {
    pub(crate) dynamodb: LocalDynamoDb,
    pub(crate) template: Template,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("template.yaml");
        let template = Template::read(&path).unwrap();
        let dynamodb = LocalDynamoDb::memory().await.unwrap();
        for table in template.tables() {
            dynamodb.create_table(table).unwrap();
        }
        Self { dynamodb, template }
    }

    pub(crate) fn launch(&self) -> Launch {
        let function = self.template.function(None).unwrap();
        let environment = self.template.environment(function, |_| String::new());
        let environment = environment.into_iter();
        let environment = environment.filter_map(|(name, value)| Some((name, value.ok()?)));
        environment.fold(
            Launch::new(env!("CARGO_BIN_EXE_inventory")).dynamodb(&self.dynamodb),
            |launch, (name, value)| launch.env(name, value),
        )
    }

    /// Runs a fresh process for one event, and gives the messages to retry and what became of each.
    pub(crate) async fn run(&self, event: &Event) -> (Vec<String>, Vec<RecordLine>) {
        run(self.launch().start().await.unwrap(), event).await
    }

    /// How many pieces of an article there are.
    pub(crate) fn stock(&self, article: &str) -> Option<u32> {
        let key = json!({ "article": { "S": article } });
        let item = self.dynamodb.item("StockTable", key).unwrap()?;
        Some(item["pieces"]["N"].as_str().unwrap().parse().unwrap())
    }

    /// The values of one attribute of a table's items, sorted.
    pub(crate) fn all(&self, table: &str, attribute: &str) -> Vec<String> {
        let items = self.dynamodb.items(table).unwrap();
        let value = |item: &Value| item[attribute]["S"].as_str().unwrap().to_owned();
        let mut values: Vec<_> = items.iter().map(value).collect();
        values.sort();
        values
    }

    /// Everything that the samples want has happened, once.
    #[track_caller]
    pub(crate) fn assert_once(&self, what: &str) {
        assert_eq!(self.stock("mug-blue"), Some(10 - 2 - 1), "{what}");
        assert_eq!(self.stock("kettle"), Some(10 - 1), "{what}");
        for (table, id) in [("OrdersTable", "order_id"), ("OutboxTable", "id")] {
            let all = self.all(table, id);
            assert_eq!(all, ["o-2001", "o-2002", "o-2003"], "{what}");
        }
        let statuses = self.all("IdempotencyTable", "status");
        assert_eq!(statuses, ["COMPLETED"; 3], "{what}");
    }
}

/// Lets a process handle one event and ends it.
pub(crate) async fn run(function: Function, event: &Event) -> (Vec<String>, Vec<RecordLine>) {
    let answer = function.invoke(event.payload(), TIMEOUT).await.unwrap();
    let response = BatchResponse::parse(&answer, event.message_ids()).unwrap();
    (response.failures().to_vec(), function.stop().await)
}

pub(crate) fn samples() -> Event {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/inventory.json");
    Event::parse(&std::fs::read_to_string(path).unwrap(), "inventory").unwrap()
}

/// An event of one order, with a message id of its own.
pub(crate) fn order(id: &str, article: &str, pieces: u32) -> Event {
    let body = json!({
        "order_id": id, "customer_id": "c-7", "article": article, "pieces": pieces,
    });
    Event::parse(&body.to_string(), "inventory").unwrap()
}
