//! The examples `receipts` and `deposits`, end to end: a real process, a real Runtime API, and real HTTP to DynamoDB.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once_local::{
    Function, InvokeError, KeyAttribute, Launch, LocalDynamoDb, TableDescription,
};
use tokio::sync::Notify;

use crate::support::envelope_bench::event_bridge;
use crate::support::wire::{Death, Turn, Wire};
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

    /// Starts an example, which Cargo builds with the tests.
    fn launch(&self, example: &str) -> Launch {
        let test = std::env::current_exe().unwrap();
        let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
        let lines = self.lines.clone();
        Launch::new(profile.join("examples").join(example))
            .dynamodb(&self.dynamodb)
            .on_line(move |line| lines.add(line.to_owned()))
    }

    async fn start(&self, launch: Launch) -> Function {
        let configured = launch.env("SQS_ONCE_TABLE", &self.table.name);
        let started = configured.start().await;
        started.expect("cargo builds the example with the tests, unless it is told `--test`")
    }

    async fn receipts(&self) -> Function {
        self.start(self.launch("receipts")).await
    }
}

async fn invoke(function: &Function, event: &Value) -> Result<Value, InvokeError> {
    let answer = function.invoke(event.to_string(), TIMEOUT).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

fn event(order_id: &str) -> Value {
    let detail = json!({ "order_id": order_id, "amount_cents": 1299 });
    let event = event_bridge("17793124-05d4-b198-2fde-7ededc63b103", &detail.to_string());
    serde_json::from_str(&event).unwrap()
}

#[tokio::test]
async fn an_order_has_one_receipt_however_often_and_wherever_its_event_arrives() {
    let bench = Bench::new().await;
    let one = bench.receipts().await;
    let another = bench.receipts().await;
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

/// The requests of `deposits`: one at its start, and one for a deposit.
const REQUESTS: [&str; 2] = ["BatchGetItem", "TransactWriteItems"];

#[tokio::test]
async fn a_deposit_is_credited_once_though_its_process_is_killed_at_any_request() {
    let event = json!({ "detail": { "deposit_id": "d-1", "account": "a-7", "cents": 1299 } });
    let balances = TableDescription {
        name: "balances".to_owned(),
        partition_key: KeyAttribute::string("account"),
        ..TableDescription::default()
    };
    for (at, request) in REQUESTS.iter().enumerate() {
        for death in [Death::Before, Death::After] {
            let what = format!("{death:?} {request}");
            let bench = Bench::new().await;
            bench.dynamodb.create_table(&balances).unwrap();
            let wire = Wire::to(&bench.dynamodb.endpoint()).await;
            let dies = Arc::new(Notify::new());
            let die = Turn::Die(death, Arc::clone(&dies));
            wire.next(std::iter::repeat_n(Turn::Pass, at).chain([die]));
            let launch = bench.launch("deposits");
            let launch = launch.env("AWS_ENDPOINT_URL_DYNAMODB", wire.endpoint());
            let function = bench.start(launch).await;
            tokio::select! {
                answer = invoke(&function, &event) => panic!("{what}: {answer:?}"),
                // Kills the process with SIGKILL.
                () = dies.notified() => drop(function),
            }
            assert_eq!(wire.seen(), REQUESTS[..=at], "{what}");

            // Delivered once more, to another process.
            let function = bench.start(bench.launch("deposits")).await;
            let receipt = invoke(&function, &event).await.unwrap();
            let expected = json!({ "deposit_id": "d-1", "cents": 1299 });
            assert_eq!(receipt, expected, "{what}");
            let balance = json!({ "account": { "S": "a-7" } });
            let balance = bench.dynamodb.item("balances", balance).unwrap().unwrap();
            assert_eq!(balance["cents"]["N"], "1299", "{what}");
            let items = bench.dynamodb.items(&bench.table.name).unwrap();
            assert_eq!(items.len(), 1, "{what}");
            assert_eq!(items[0]["status"]["S"], "COMPLETED", "{what}");
        }
    }
}
