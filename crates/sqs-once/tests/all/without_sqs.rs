//! The example `receipts`, end to end: a real process, a real Runtime API, and real HTTP to DynamoDB.

use std::path::PathBuf;

use std::time::Duration;

use serde_json::{Value, json};
use sqs_once_local::{Function, InvokeError, Launch, LocalDynamoDb, TableDescription};

use crate::support::{Notes, dynamodb};

/// Enough for a loaded machine. No test waits this long.
const TIMEOUT: Duration = Duration::from_secs(30);

struct Bench {
    dynamodb: LocalDynamoDb,
    table: TableDescription,
    lines: Notes<String>,
}

impl Bench {
    async fn new() -> Self {
        let table = TableDescription::default();
        Self {
            dynamodb: dynamodb::local(&table).await,
            table,
            lines: Notes::default(),
        }
    }

    /// Starts the example, which Cargo builds with the tests.
    fn launch(&self) -> Launch {
        let test = std::env::current_exe().unwrap();
        let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
        let lines = self.lines.clone();
        Launch::new(profile.join("examples/receipts"))
            .dynamodb(&self.dynamodb)
            .on_line(move |line| lines.add(line.to_owned()))
    }

    async fn start(&self) -> Function {
        let configured = self.launch().env("SQS_ONCE_TABLE", &self.table.name);
        let started = configured.start().await;
        started.expect("cargo builds the example with the tests, unless it is told `--test`")
    }
}

async fn invoke(function: &Function, event: &Value) -> Result<Value, InvokeError> {
    let answer = function.invoke(event.to_string(), TIMEOUT).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

fn event(order_id: &str) -> Value {
    json!({
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": "OrderPlaced",
        "source": "shop.orders",
        "account": "123456789012",
        "time": "2026-01-01T00:00:00Z",
        "region": "eu-central-1",
        "resources": [],
        "detail": { "order_id": order_id, "amount_cents": 1299 },
    })
}

#[tokio::test]
async fn an_order_has_one_receipt_however_often_and_wherever_its_event_arrives() {
    let bench = Bench::new().await;
    let one = bench.start().await;
    let another = bench.start().await;
    let receipt = invoke(&one, &event("o-1")).await.unwrap();
    assert_eq!(receipt["amount_cents"], 1299);
    let refused = invoke(&one, &event(" ")).await.unwrap_err();
    assert!(refused.to_string().contains("the business key is empty"));
    for function in [&one, &another] {
        assert_eq!(invoke(function, &event("o-1")).await.unwrap(), receipt);
    }
    let other = invoke(&another, &event("o-2")).await.unwrap();
    assert_ne!(other["number"], receipt["number"]);

    let items = bench.dynamodb.items(&bench.table.name).unwrap();
    assert_eq!(items.len(), 2);
    for item in items {
        assert_eq!(item["status"]["S"], "COMPLETED");
        assert!(item["id"]["S"].as_str().unwrap().starts_with("receipts#"));
    }
    drop((one.stop().await, another.stop().await));
    let lines = bench.lines.all();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("receipt issued"), 2);
    assert_eq!(count("work duplicate"), 2);
}

#[tokio::test]
async fn the_off_switch_bypasses_the_store_and_says_so() {
    let bench = Bench::new().await;
    let off = bench.launch().env("SQS_ONCE_DISABLED", "true");
    // The table is set, but the function sends it no request.
    let off = off.env("SQS_ONCE_TABLE", &bench.table.name);
    let function = off.start().await.unwrap();
    let first = invoke(&function, &event("o-1")).await.unwrap();
    let second = invoke(&function, &event("o-1")).await.unwrap();
    assert_ne!(first["number"], second["number"]);
    assert!(bench.dynamodb.items(&bench.table.name).unwrap().is_empty());
    function.stop().await;
    let lines = bench.lines.all();
    assert!(lines.iter().any(|line| line.contains("SQS_ONCE_DISABLED")));
}
