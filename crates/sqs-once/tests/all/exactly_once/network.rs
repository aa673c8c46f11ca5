//! An in-process DynamoDB behind a network that loses, delays and repeats requests of processes that may die.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use dynoxide::Database;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::exactly_once::chance::Chance;

pub(crate) const TABLE: &str = "idempotency";
pub(crate) const EFFECTS: &str = "effects";

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is lost, and the client gets no error.
    LoseRequest,
    /// The process loses its network: neither this request nor any later one arrives.
    CutOff,
    /// DynamoDB executes the request, but the answer is lost.
    LoseAnswer,
    /// The connection breaks before the execution, but DynamoDB executes the request much later.
    Delay,
    /// The process dies before it sends the request.
    DieBefore,
    /// The process dies after the execution.
    DieAfter,
    /// DynamoDB throttles the request.
    Throttle,
    /// Another transaction is in flight on one of the request's items.
    Collide,
    /// The server fails after the execution.
    Fail,
}

impl Fault {
    pub(crate) const ALL: [Self; 9] = [
        Self::LoseRequest,
        Self::CutOff,
        Self::LoseAnswer,
        Self::Delay,
        Self::DieBefore,
        Self::DieAfter,
        Self::Throttle,
        Self::Collide,
        Self::Fail,
    ];
}

/// When faults occur.
#[derive(Debug)]
pub(crate) enum Weather {
    /// This fault at this request, counted from 0.
    Once(usize, Fault),
    /// A random fault at one in `once_in` requests, during the first `requests` requests.
    Storm { once_in: u64, requests: usize },
}

#[derive(Clone)]
pub(crate) struct Network(Arc<Shared>);

struct Shared {
    database: Database,
    weather: Weather,
    chance: Chance,
    requests: AtomicUsize,
    faults: AtomicUsize,
    log: Mutex<Vec<String>>,
}

impl Network {
    pub(crate) fn new(database: Database, weather: Weather, chance: Chance) -> Self {
        Self(Arc::new(Shared {
            database,
            weather,
            chance,
            requests: AtomicUsize::new(0),
            faults: AtomicUsize::new(0),
            log: Mutex::default(),
        }))
    }

    /// The number of requests with a fault so far.
    pub(crate) fn faults(&self) -> usize {
        self.0.faults.load(Ordering::Relaxed)
    }

    /// The faults that occurred, for a failure message.
    pub(crate) fn story(&self) -> String {
        self.0.log.lock().unwrap().join("\n")
    }

    pub(crate) fn note(&self, line: String) {
        self.0.log.lock().unwrap().push(line);
    }

    /// A client in a process.
    pub(crate) fn client(&self, process: &Process) -> Client {
        let connector = SharedHttpConnector::new(Wire {
            network: self.clone(),
            process: process.clone(),
        });
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
            .endpoint_url("http://127.0.0.1:1")
            .http_client(http_client_fn(move |_, _| connector.clone()))
            // The SDK's jitter does not come from the seed, and the library retries too.
            .retry_config(RetryConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(Duration::from_secs(2))
                    .build(),
            )
            .build();
        Client::from_conf(config)
    }

    /// How often the effect of `key` happened.
    pub(crate) fn effects(&self, key: &str) -> u64 {
        let request =
            json!({"TableName": EFFECTS, "Key": {"id": {"S": key}}, "ConsistentRead": true});
        let request = serde_json::from_value(request).unwrap();
        let answer = self.0.database.get_item(request).unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        answer["Item"]["times"]["N"]
            .as_str()
            .map_or(0, |times| times.parse().unwrap())
    }

    fn fault(&self) -> Option<Fault> {
        let at = self.0.requests.fetch_add(1, Ordering::Relaxed);
        let fault = match self.0.weather {
            Weather::Once(when, fault) => (at == when).then_some(fault),
            Weather::Storm { once_in, requests } => {
                let comes = at < requests && self.0.chance.once_in(once_in);
                comes.then(|| Fault::ALL[self.0.chance.index(Fault::ALL.len())])
            }
        };
        self.0
            .faults
            .fetch_add(fault.iter().len(), Ordering::Relaxed);
        fault
    }

    fn carry_out(&self, operation: &str, body: &[u8]) -> HttpResponse {
        let database = &self.0.database;
        let answer = match operation {
            "TransactWriteItems" => {
                let mut request: Value = serde_json::from_slice(body).unwrap();
                // DynamoDB forgets the token after ten minutes. The key's item must be enough.
                if self.0.chance.once_in(2) {
                    request
                        .as_object_mut()
                        .unwrap()
                        .remove("ClientRequestToken");
                }
                let body = request.to_string();
                answered(body.as_bytes(), |request| {
                    database.transact_write_items(request)
                })
            }
            "UpdateItem" => answered(body, |request| database.update_item(request)),
            "BatchGetItem" => answered(body, |request| database.batch_get_item(request)),
            "BatchExecuteStatement" => {
                answered(body, |request| database.batch_execute_statement(request))
            }
            _ => panic!("no client sends {operation}"),
        };
        let (status, body) = answer.map_or_else(
            |error| (error.status_code(), error.to_json()),
            |body| (200, body),
        );
        response(status, body)
    }
}

fn answered<R: DeserializeOwned, A: Serialize>(
    body: &[u8],
    carry_out: impl FnOnce(R) -> dynoxide::Result<A>,
) -> dynoxide::Result<String> {
    let request = serde_json::from_slice(body).unwrap();
    carry_out(request).map(|answer| serde_json::to_string(&answer).unwrap())
}

fn response(status: u16, body: String) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), body.into())
}

fn broken() -> ConnectorError {
    ConnectorError::io("the connection broke".into())
}

/// A process. Its work ends when it dies, but its requests may still arrive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    dead: Arc<AtomicBool>,
    cut_off: Arc<AtomicBool>,
}

impl Process {
    pub(crate) fn die(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Never returns in a dead process.
    pub(crate) async fn goes_on(&self) {
        if self.is_dead() {
            std::future::pending().await
        }
    }
}

/// A process's connection to the database.
#[derive(Clone)]
struct Wire {
    network: Network,
    process: Process,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { network, process } = self.clone();
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default().to_vec();
        HttpConnectorFuture::new(async move {
            process.goes_on().await;
            if process.cut_off.load(Ordering::Relaxed) {
                return Err(broken());
            }
            let fault = network.fault();
            network.note(format!("{operation}: {fault:?}"));
            if fault == Some(Fault::DieBefore) {
                process.die();
                process.goes_on().await;
            }
            let chance = network.0.chance.clone();
            let (there, back) = (chance.millis(1..20), chance.millis(1..20));
            match fault {
                Some(Fault::LoseRequest) => std::future::pending().await,
                Some(Fault::CutOff) => {
                    process.cut_off.store(true, Ordering::Relaxed);
                    return Err(broken());
                }
                Some(Fault::Throttle) => {
                    let error =
                        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}"#;
                    return Ok(response(400, error.to_owned()));
                }
                Some(Fault::Collide) => {
                    let error = json!({
                        "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                        "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
                    });
                    let error = match operation.as_str() {
                        "TransactWriteItems" => error,
                        _ => {
                            json!({"__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException"})
                        }
                    };
                    return Ok(response(400, error.to_string()));
                }
                _ => {}
            }
            // A request arrives even if its sender has died.
            let on_its_way = tokio::spawn({
                let network = network.clone();
                let late = (fault == Some(Fault::Delay)).then(|| chance.millis(1000..100_000));
                async move {
                    sleep(there + late.unwrap_or_default()).await;
                    network.carry_out(&operation, &body)
                }
            });
            if fault == Some(Fault::Delay) {
                return Err(broken());
            }
            let answer = on_its_way.await.map_err(|_| broken())?;
            match fault {
                Some(Fault::LoseAnswer) => std::future::pending().await,
                Some(Fault::DieAfter) => process.die(),
                Some(Fault::Fail) => {
                    return Ok(response(500, String::new()));
                }
                _ => {}
            }
            sleep(back).await;
            process.goes_on().await;
            Ok(answer)
        })
    }
}
