//! The function: a process that the run starts and kills.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use sqs_once::extract::{Attempt, Message};
use sqs_once::key::Ids;
use sqs_once::sdk::dynamodb::types::{AttributeValue, Update};
use sqs_once::{Error, Handler, HandlerError, IdempotencyToken, Router, State, Writes};
use tokio::runtime::Handle;

use crate::history::name;
use crate::plan::Way;

/// The table of the effects of `Way::Transactional`.
pub(crate) const COUNTERS: &str = "counters";
/// The URL of the ledger, which receives the effects of the other ways.
pub(crate) const LEDGER_URL: &str = "KILL_LEDGER_URL";
/// The number of this process, for the ledger.
pub(crate) const PROCESS: &str = "KILL_PROCESS";
pub(crate) const WAY: &str = "KILL_WAY";

/// The routes of the function: of orders with an even number, and with an odd one. Each has a namespace of its name.
pub(crate) const ROUTES: [&str; 2] = ["charge", "refund"];

/// The prefix of the business keys. An order has its key in common with one order of the other route.
pub(crate) const KEY: &str = "payment-";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// `order-` and a number.
    pub(crate) order_id: String,
    route: String,
    /// The business key.
    payment: String,
    pub(crate) work_ms: u64,
    /// How long its first attempt works in code that can't be cancelled.
    #[serde(default)]
    pub(crate) blocks_ms: u64,
    /// Whether the order always fails.
    pub(crate) is_spoilt: bool,
}

impl Order {
    pub(crate) fn new(number: usize, work: Duration, is_spoilt: bool) -> Self {
        Self {
            order_id: name(number),
            route: ROUTES[number % ROUTES.len()].to_owned(),
            payment: format!("{KEY}{}", number / ROUTES.len()),
            work_ms: u64::try_from(work.as_millis()).unwrap_or_default(),
            blocks_ms: 0,
            is_spoilt,
        }
    }
}

/// The id of an order's item in the library's table.
pub(crate) fn item_id(order: usize) -> String {
    let Order { route, payment, .. } = Order::new(order, Duration::ZERO, false);
    format!("{route}#s:{payment}")
}

/// The body of a request to the ledger: a handler has started, or its effect happens.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) order_id: String,
    pub(crate) process: usize,
    pub(crate) message_id: String,
    pub(crate) receive_count: u32,
    pub(crate) fence: u64,
    pub(crate) token: String,
}

const STEP_MS: u64 = 20;

/// What the function writes before its process id, which the run needs to freeze it.
pub(crate) const PROCESS_ID: &str = "process id ";

/// Why an order always fails.
const SPOILT: &str = "the order is spoilt";

/// A variable that the run sets.
fn setting<T: FromStr>(name: &str) -> Result<T, Error> {
    let value = std::env::var(name).ok();
    let value = value.and_then(|value| value.parse().ok());
    value.ok_or_else(|| format!("{name} is not set as the run sets it").into())
}

#[derive(Clone)]
struct Ledger {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
    process: usize,
}

impl Ledger {
    fn from_env() -> Result<Self, Error> {
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            url: setting(LEDGER_URL)?,
            process: setting(PROCESS)?,
        })
    }

    async fn enter(&self, what: &str, entry: &Entry) -> Result<(), HandlerError> {
        let request = Request::post(format!("{}/{what}", self.url))
            .header("content-type", "application/json")
            .body(Full::from(serde_json::to_vec(entry)?))?;
        let status = self.client.request(request).await?.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(HandlerError::retry(format!("the ledger answered {status}"))),
        }
    }
}

/// A handler whose effect does not commit with its record.
#[sqs_once::handler(key = order.payment, namespace = "payments")]
async fn enter(
    order: Order,
    attempt: Attempt,
    token: IdempotencyToken,
    meta: Arc<Message>,
    State(ledger): State<Ledger>,
) -> Result<(), HandlerError> {
    if order.is_spoilt {
        return Err(HandlerError::terminal(SPOILT));
    }
    let entry = Entry {
        order_id: order.order_id,
        process: ledger.process,
        message_id: meta.id().to_owned(),
        receive_count: attempt.receive_count(),
        fence: attempt.fence().get(),
        token: token.to_string(),
    };
    if order.blocks_ms > 0 && entry.receive_count == 1 {
        let runtime = Handle::current();
        let code = move || runtime.block_on(outlive(&ledger, &entry, order.blocks_ms));
        return sqs_once::spawn_blocking(code).await?;
    }
    ledger.enter("begun", &entry).await?;
    tokio::time::sleep(Duration::from_millis(order.work_ms)).await;
    ledger.enter("effect", &entry).await
}

/// Code that can't be cancelled. It works in steps, so that the time of a freeze does not count.
async fn outlive(ledger: &Ledger, entry: &Entry, blocks_ms: u64) -> Result<(), HandlerError> {
    ledger.enter("begun", entry).await?;
    for _ in 0..blocks_ms / STEP_MS {
        std::thread::sleep(Duration::from_millis(STEP_MS));
    }
    ledger.enter("effect", entry).await
}

/// A handler whose effect commits with its record.
#[sqs_once::handler(key = order.payment, namespace = "payments")]
async fn count(order: Order) -> Result<Writes, HandlerError> {
    if order.is_spoilt {
        return Err(HandlerError::terminal(SPOILT));
    }
    tokio::time::sleep(Duration::from_millis(order.work_ms)).await;
    let once_more = Update::builder()
        .table_name(COUNTERS)
        .key("id", AttributeValue::S(order.order_id))
        .update_expression("ADD times :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
    Ok(Writes::new().update(once_more.build()?))
}

/// A router with this handler in each route.
fn routed(handler: &Handler) -> Router {
    let routes =
        Router::by_json_pointer("/route").defaults(Handler::defaults().ids(Ids::readable()));
    ROUTES.into_iter().fold(routes, |routes, name| {
        routes.route(name, handler.clone().namespace(name))
    })
}

/// Runs the function until it is killed.
#[allow(clippy::print_stderr, reason = "the run reads it")]
pub async fn run() -> Result<(), Error> {
    eprintln!("{PROCESS_ID}{}", std::process::id());
    let way: String = setting(WAY)?;
    match Way::from_str(&way, false)? {
        Way::Transactional => sqs_once::run(routed(&count::handler())).await,
        // With `SQS_ONCE_DISABLED`, which the run sets for `Unprotected`, nothing is recorded.
        Way::ClaimFirst | Way::Fifo | Way::Unprotected => {
            let handler = enter::handler(Ledger::from_env()?);
            sqs_once::run(routed(&handler)).await
        }
    }
}
