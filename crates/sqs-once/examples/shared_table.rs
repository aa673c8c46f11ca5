//! A consumer that shares its table with a function that uses Powertools for Python, for `.ci/powertools.py`, which runs
//! both: serves a DynamoDB on loopback, writes its endpoint, and then handles a batch for every line that it reads.
//!
//! A line is `{"call": 1, "keys": ["o-1"], "timeout_ms": 5000, "work_ms": 100, "end": "done"}`, and its answer
//! `{"call": 1, "ran": ["o-1"], "failed": []}`, in any order. An `end` of
//! `fails` is an error of the handler, and with `dies` the process seems to die with the first effect.
//!
//! The line `{"call": 2, "id": "…", "owner": "…", "lease_ms": 5000}` renews the lease of a claim. Its answer is
//! `{"call": 2, "renewed": true}`.

#![allow(clippy::print_stdout, reason = "its output is its answer")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsEvent, SqsMessage};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use lambda_runtime::{Context, LambdaEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqs_once::consumer::Margins;
use sqs_once::key::{ItemId, KeyCodec};
use sqs_once::store::{Owner, Settled, Settlement, Settling, Store, Timestamp};
use sqs_once::{Completion, Consumer, DynamoDbStore, Handler, HandlerError};
use sqs_once_local::{LocalDynamoDb, TableDescription};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::Notify;
use tower_service::Service;

const TABLE: &str = "idempotency";

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Renew(Renewal),
    Handle(Call),
}

#[derive(Deserialize)]
struct Renewal {
    call: u64,
    id: String,
    owner: String,
    lease_ms: u64,
}

#[derive(Deserialize)]
struct Call {
    call: u64,
    keys: Vec<String>,
    timeout_ms: u64,
    work_ms: u64,
    end: End,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum End {
    Done,
    Fails,
    Dies,
}

#[derive(Deserialize, Serialize)]
struct Order {
    order_id: String,
    call: u64,
    work_ms: u64,
    end: End,
}

/// Which keys ran, by call.
#[derive(Default)]
struct Ran {
    keys: Mutex<HashMap<u64, Vec<String>>>,
    changed: Notify,
}

impl Ran {
    fn of(&self, call: u64) -> Vec<String> {
        let keys = self.keys.lock().map(|keys| keys.get(&call).cloned());
        keys.ok().flatten().unwrap_or_default()
    }
}

fn consumer(store: DynamoDbStore, ran: &Arc<Ran>) -> Consumer {
    let ran = Arc::clone(ran);
    Consumer::new(
        Handler::json::<Order>()
            .key(|order: &Order| order.order_id.clone())
            .call(move |order: Order| {
                if let Ok(mut keys) = ran.keys.lock() {
                    keys.entry(order.call).or_default().push(order.order_id);
                }
                ran.changed.notify_one();
                let work = tokio::time::sleep(Duration::from_millis(order.work_ms));
                async move {
                    work.await;
                    match order.end {
                        End::Fails => Err(HandlerError::from("no luck")),
                        _ => Ok(Completion(json!({ "by": "rust" }))),
                    }
                }
            })
            .namespace("shared")
            .ids(KeyCodec::powertools_python("orders.app.process_order")),
    )
    .store(store)
    .margins(Margins::new().lease(Duration::from_secs(1)))
}

async fn handle(mut consumer: Consumer, call: Call, ran: Arc<Ran>) -> Value {
    let mut event = SqsEvent::default();
    event.records = call.keys.iter().map(|key| message(key, &call)).collect();
    let mut context = Context::default();
    context.deadline = (Timestamp::now() + Duration::from_millis(call.timeout_ms)).as_millis();
    let answer = consumer.call(LambdaEvent::new(event, context));
    let died = async {
        while call.end != End::Dies || ran.of(call.call).is_empty() {
            ran.changed.notified().await;
        }
    };
    let failed = tokio::select! {
        answer = answer => match answer {
            Ok(answer) => {
                let failures = answer.batch_item_failures.into_iter();
                failures.map(|failure| failure.item_identifier).collect()
            }
            Err(error) => vec![error.to_string()],
        },
        () = died => call.keys.clone(),
    };
    json!({ "call": call.call, "ran": ran.of(call.call), "failed": failed })
}

async fn renew(store: DynamoDbStore, renewal: Renewal) -> Result<Value, Box<dyn Error>> {
    let lease_until = Timestamp::now() + Duration::from_millis(renewal.lease_ms);
    let settlement = Settlement::new(
        ItemId::from_stored(renewal.id.as_str()),
        Owner::from_stored(&renewal.owner).ok_or("an owner has 32 hexadecimal digits")?,
        Settling::renew(lease_until),
    );
    let settled = store
        .settle(&[settlement])
        .await
        .pop()
        .ok_or("no answer")??;
    Ok(json!({ "call": renewal.call, "renewed": settled == Settled::Written }))
}

fn message(key: &str, call: &Call) -> SqsMessage {
    let mut message = SqsMessage::default();
    message.message_id = Some(key.to_owned());
    let body =
        json!({ "order_id": key, "call": call.call, "work_ms": call.work_ms, "end": call.end });
    message.body = Some(body.to_string());
    message
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // To standard error: why a key did not run.
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let dynamodb = LocalDynamoDb::memory().await?;
    let table = TableDescription {
        name: TABLE.to_owned(),
        ..TableDescription::default()
    };
    dynamodb.create_table(&table)?;
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(dynamodb.endpoint())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let ran = Arc::new(Ran::default());
    let store = DynamoDbStore::new(Client::from_conf(config), TABLE);
    let consumer = consumer(store.clone(), &ran);
    println!("{}", dynamodb.endpoint());
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let call = match serde_json::from_str(&line)? {
            Line::Handle(call) => call,
            Line::Renew(renewal) => {
                println!("{}", renew(store.clone(), renewal).await?);
                continue;
            }
        };
        let (consumer, ran) = (consumer.clone(), Arc::clone(&ran));
        tokio::spawn(async move { println!("{}", handle(consumer, call, ran).await) });
    }
    Ok(())
}
