//! An outage with the function as it is deployed: several environments, each a process, and a service that is down.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use sqs_once_local::{
    EventSourceMapping, Function, Launch, LocalDynamoDb, LocalSqs, NewMessage, QueueSettings,
    Queues, Redrive, TableDescription,
};
use tokio::sync::watch;
use tokio::task::JoinSet;

const QUEUE: &str = "orders";
const DEAD: &str = "orders-dead";

const ORDERS: usize = 60;
const ENVIRONMENTS: usize = 4;
/// How many failures open a breaker. An environment of this test has one call in flight.
const FAILURES: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// Longer than any step takes, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How long an event source mapping waits after it found the queue empty.
const IDLE: Duration = Duration::from_millis(20);

/// The payments service. It answers 503 until it is up.
#[derive(Clone, Default)]
struct Service(Arc<watch::Sender<Calls>>);

#[derive(Default)]
struct Calls {
    is_up: bool,
    failed: usize,
    /// The tokens of the charges, by order.
    charges: HashMap<String, Vec<String>>,
}

impl Service {
    /// Returns the URL.
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/charges", post(charge));
        let router = router.with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    async fn until(&self, is_so: impl Fn(&Calls) -> bool) {
        let mut calls = self.0.subscribe();
        let seen = tokio::time::timeout(LIMIT, calls.wait_for(|calls| is_so(calls))).await;
        let _ = seen.expect("it happens in time").unwrap();
    }
}

async fn charge(
    State(Service(calls)): State<Service>,
    headers: HeaderMap,
    Json(order): Json<Value>,
) -> StatusCode {
    let token = headers["idempotency-key"].to_str().unwrap().to_owned();
    let order = order["order_id"].as_str().unwrap().to_owned();
    let mut status = StatusCode::CREATED;
    calls.send_modify(|calls| match calls.is_up {
        true => calls.charges.entry(order).or_default().push(token),
        false => {
            calls.failed += 1;
            status = StatusCode::SERVICE_UNAVAILABLE;
        }
    });
    status
}

/// The queue with all orders, and its dead-letter queue.
async fn orders() -> LocalSqs {
    let mut queues = Queues::default();
    queues.create(DEAD, QueueSettings::default()).unwrap();
    let settings = QueueSettings {
        // A message that is taken is not delivered again, even if the machine is slow.
        visibility_timeout: 2 * LIMIT,
        redrive: Some(Redrive {
            to: DEAD.to_owned(),
            max_receive_count: 20,
        }),
        ..QueueSettings::default()
    };
    queues.create(QUEUE, settings).unwrap();
    for order in 0..ORDERS {
        let body = json!({ "order_id": format!("o-{order}"), "amount_cents": 100 });
        let message = NewMessage::new(format!("m-{order}"), body.to_string());
        queues.send(QUEUE, message, SystemTime::now()).unwrap();
    }
    LocalSqs::start(queues).await.unwrap()
}

/// Delivers batches to the environment until the queue has no message, visible or not.
async fn work(sqs: Arc<LocalSqs>, environment: Function) {
    let mapping = EventSourceMapping::new(&sqs, QUEUE, 10);
    while sqs.queues().len(QUEUE).unwrap() > 0 {
        let Some(batch) = mapping.poll(SystemTime::now()).unwrap() else {
            tokio::time::sleep(IDLE).await;
            continue;
        };
        let answer = environment.invoke(batch.event(), LIMIT).await.unwrap();
        let settled = mapping.settle(batch, &answer, SystemTime::now()).unwrap();
        assert!(settled.refused.is_none(), "{settled:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn during_an_outage_only_probes_reach_the_service_and_after_it_every_order_is_charged_once() {
    let service = Service::default();
    let url = service.start().await;
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let table = TableDescription::default();
    dynamodb.create_table(&table).unwrap();
    let sqs = Arc::new(orders().await);
    let launch = Launch::new(env!("CARGO_BIN_EXE_outage"))
        .init_limit(LIMIT)
        .dynamodb(&dynamodb)
        .env("AWS_ENDPOINT_URL_SQS", sqs.endpoint())
        .env("SQS_ONCE_TABLE", &table.name)
        .env("SQS_ONCE_DLQ_URL", sqs.url(DEAD))
        .env("SQS_ONCE_CONCURRENCY", "1")
        .env("PAYMENTS_URL", url)
        .env("PROBE_SECONDS", PAUSE.as_secs().to_string());
    // All environments are ready before the first order comes, so none has read that the breaker is open.
    let mut environments = Vec::new();
    for _ in 0..ENVIRONMENTS {
        environments.push(launch.clone().start().await.unwrap());
    }
    for environment in &environments {
        environment.ready().await.unwrap();
    }

    let began = Instant::now();
    let mut working = JoinSet::new();
    for environment in environments {
        working.spawn(work(Arc::clone(&sqs), environment));
    }
    let before_open = ENVIRONMENTS * FAILURES;
    service.until(|calls| calls.failed >= before_open + 2).await;
    let mut failed = 0;
    service.0.send_modify(|calls| {
        calls.is_up = true;
        failed = calls.failed;
    });
    // A probe is elected more than a pause after the opening, or after the probe before it.
    let probes = began.elapsed().as_millis() / PAUSE.as_millis();
    let most = before_open + usize::try_from(probes).unwrap();
    assert!(failed <= most, "{failed} calls, {most} at most");

    let done = async { while working.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(LIMIT, done)
        .await
        .expect("all orders are done");
    let calls = service.0.borrow();
    assert_eq!(calls.charges.len(), ORDERS);
    for (order, tokens) in &calls.charges {
        assert_eq!(tokens.len(), 1, "{order} is charged once");
    }
    assert_eq!(sqs.queues().len(DEAD).unwrap(), 0);
}
