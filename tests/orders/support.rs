//! What the end-to-end tests share: the real function binary, a DynamoDB, a payments service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use sqs_once_local::{
    BatchResponse, Event, Function, InvokeError, Launch, LocalDynamoDb, RecordLine,
    TableDescription,
};
use tokio::sync::Notify;

/// Long enough for a loaded machine; no test waits for it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The table's logical id in the template.
pub(crate) const TABLE: &str = "IdempotencyTable";

/// A table, a payments service, and the function's environment.
pub(crate) struct Bench {
    pub(crate) dynamodb: LocalDynamoDb,
    pub(crate) payments: Payments,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let dynamodb = LocalDynamoDb::memory().await.unwrap();
        let table = TableDescription {
            name: TABLE.to_owned(),
            ..TableDescription::default()
        };
        dynamodb.create_table(&table).unwrap();
        let payments = Payments::start().await;
        Self { dynamodb, payments }
    }

    /// The function, set up as its template does.
    pub(crate) fn launch(&self) -> Launch {
        Launch::new(env!("CARGO_BIN_EXE_orders"))
            .dynamodb(&self.dynamodb)
            .env("SQS_ONCE_TABLE", TABLE)
            .env("PAYMENTS_URL", &self.payments.url)
    }

    /// Runs a fresh process for one event.
    pub(crate) async fn run(&self, event: &Event) -> Run {
        run(self.launch().start().await.unwrap(), event).await
    }

    /// Checks that this many orders are charged, and each of them once.
    #[track_caller]
    pub(crate) fn assert_charged_once(&self, orders: usize) {
        let charges = self.payments.charges();
        assert_eq!(charges.len(), orders);
        assert!(charges.values().all(|tokens| tokens.len() == 1));
    }

    pub(crate) fn items(&self) -> Vec<Value> {
        self.dynamodb.items(TABLE).unwrap()
    }
}

/// What one invocation came to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) failures: Vec<String>,
    pub(crate) lines: Vec<RecordLine>,
}

impl Run {
    pub(crate) fn count(&self, outcome: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.outcome == outcome).count()
    }

    pub(crate) fn reason(&self, message_id: &str) -> &str {
        let line = self.lines.iter().find(|line| line.message_id == message_id);
        line.and_then(|line| line.reason.as_deref())
            .unwrap_or_default()
    }
}

pub(crate) async fn run(function: Function, event: &Event) -> Run {
    let answer = function.invoke(event.payload(), TIMEOUT).await.unwrap();
    let response = BatchResponse::parse(&answer, event.message_ids()).unwrap();
    Run {
        failures: response.failures().to_vec(),
        lines: function.stop().await,
    }
}

/// Starts a function that is expected to end by itself.
pub(crate) async fn refusal(launch: Launch) -> String {
    let function = launch.start().await.unwrap();
    let event = event("empty-batch");
    match function.invoke(event.payload(), TIMEOUT).await {
        Err(InvokeError::Exited { status, last_lines }) => {
            assert!(!status.success());
            last_lines.join("\n")
        }
        other => panic!("expected an exit, got {other:?}"),
    }
}

/// A sample event.
pub(crate) fn event(name: &str) -> Event {
    let path = format!("{}/../../events/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Event::parse(&text, "orders").unwrap()
}

/// The body of an order.
pub(crate) fn body(id: &str) -> Value {
    json!({ "order_id": id, "customer_id": "c-7", "amount_cents": 1299, "currency": "EUR" })
}

/// An event of one order.
pub(crate) fn order(id: &str) -> Event {
    Event::parse(&body(id).to_string(), "orders").unwrap()
}

/// Serves on a free loopback port and returns the base URL.
pub(crate) async fn serve(service: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    url
}

/// A payments service that notes every charge it makes, and answers as it is told.
pub(crate) struct Payments {
    pub(crate) url: String,
    desk: Arc<Desk>,
}

#[derive(Default)]
struct Desk {
    /// The idempotency keys of the charges of each order.
    charges: Mutex<BTreeMap<String, Vec<String>>>,
    answers: Mutex<BTreeMap<String, Answer>>,
    arrived: Notify,
}

#[derive(Clone)]
pub(crate) enum Answer {
    Status(u16),
    /// Asks for a pause.
    Later,
    /// Charges, and says so only when it is notified.
    Held(Arc<Notify>),
}

impl Payments {
    async fn start() -> Self {
        let desk = Arc::new(Desk::default());
        let service = Router::new()
            .route("/charges", post(charge))
            .with_state(Arc::clone(&desk));
        Self {
            url: serve(service).await,
            desk,
        }
    }

    /// How the service answers for one order from now on.
    pub(crate) fn answer(&self, order: &str, answer: Answer) {
        let mut answers = self.desk.answers.lock().unwrap();
        answers.insert(order.to_owned(), answer);
    }

    /// Charges one order, and says so only when the gate is notified.
    pub(crate) fn hold(&self, order: &str) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        self.answer(order, Answer::Held(Arc::clone(&gate)));
        gate
    }

    /// The idempotency keys of the charges made, by order.
    pub(crate) fn charges(&self) -> BTreeMap<String, Vec<String>> {
        self.desk.charges.lock().unwrap().clone()
    }

    /// Waits until an order is charged.
    pub(crate) async fn charged_for(&self, order: &str) {
        while !self.desk.charges.lock().unwrap().contains_key(order) {
            self.charged().await;
        }
    }

    /// Waits for the next charge.
    pub(crate) async fn charged(&self) {
        self.desk.arrived.notified().await;
    }
}

async fn charge(
    State(desk): State<Arc<Desk>>,
    headers: HeaderMap,
    Json(order): Json<Value>,
) -> Response {
    for field in ["order_id", "customer_id", "amount_cents", "currency"] {
        assert!(!order[field].is_null(), "{order}");
    }
    let id = order["order_id"].as_str().unwrap().to_owned();
    let answer = desk.answers.lock().unwrap().get(&id).cloned();
    match answer {
        Some(Answer::Status(status)) => {
            return StatusCode::from_u16(status).unwrap().into_response();
        }
        Some(Answer::Later) => {
            return (StatusCode::TOO_MANY_REQUESTS, [("Retry-After", "7")]).into_response();
        }
        Some(Answer::Held(_)) | None => {}
    }
    let token = headers["idempotency-key"].to_str().unwrap().to_owned();
    {
        let mut charges = desk.charges.lock().unwrap();
        charges.entry(id).or_default().push(token);
    }
    desk.arrived.notify_one();
    if let Some(Answer::Held(gate)) = answer {
        gate.notified().await;
    }
    StatusCode::CREATED.into_response()
}
