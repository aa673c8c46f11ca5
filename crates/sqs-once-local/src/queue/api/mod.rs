//! The SQS API in its JSON protocol.

mod attributes;
mod batch;
mod delete;
mod message_attributes;
mod move_task;
mod names;
mod parameters;
mod protocol;
mod receive;
mod refused;
mod send;
mod visibility;

use super::Queues;
use super::endpoint::{lock, url};
use crate::local_event::LocalEvent;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use move_task::MoveTasks;
use refused::Refused;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;
use tokio::sync::Notify;
use uuid::Uuid;

/// A batch is 1 MiB at most, and JSON may encode each of its bytes as six.
pub(super) const LARGEST_REQUEST: usize = 8 * 1024 * 1024;

const JSON: &str = "application/x-amz-json-1.0";

type Answer = Result<Value, Refused>;

/// The state that all operations share.
pub(super) struct Api {
    queues: Arc<Mutex<Queues>>,
    address: SocketAddr,
    started: SystemTime,
    /// Wakes the requests that wait for messages after every change to a message.
    changed: Arc<Notify>,
    moves: Mutex<MoveTasks>,
}

impl Api {
    pub(super) fn new(queues: Arc<Mutex<Queues>>, address: SocketAddr) -> Arc<Self> {
        let changed = Arc::new(Notify::new());
        let wakes = Arc::clone(&changed);
        let observer = move |_, _: &LocalEvent| wakes.notify_waiters();
        lock(&queues).observe(Arc::new(observer));
        Arc::new(Self {
            queues,
            address,
            started: SystemTime::now(),
            changed,
            moves: Mutex::default(),
        })
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    fn moves(&self) -> MutexGuard<'_, MoveTasks> {
        lock(&self.moves)
    }

    fn url(&self, queue: &str) -> String {
        url(self.address, queue)
    }
}

pub(super) fn router(api: Arc<Api>) -> Router {
    Router::new().fallback(respond).with_state(api)
}

async fn respond(
    State(api): State<Arc<Api>>,
    method: Method,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let answer = match protocol::check(&method, &headers) {
        Ok(()) => answer(&api, &headers, body).await,
        Err(refused) => Err(refused),
    };
    let mut response = match answer {
        Ok(answer) => answer.to_string().into_response(),
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    if let Ok(id) = HeaderValue::try_from(Uuid::new_v4().to_string()) {
        headers.insert("x-amzn-requestid", id);
    }
    response
}

async fn answer(
    api: &Arc<Api>,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let target = headers.get("x-amz-target");
    let target = target.and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix("AmazonSQS."));
    let operation = operation.unwrap_or_default();
    let body = body.map_err(|error| Refused::new("RequestEntityTooLarge", error.body_text()))?;
    let request = &parameters::parse(&body)?;
    match operation {
        "SendMessage" => send::one(api, request),
        "SendMessageBatch" => send::batch(api, request),
        "ReceiveMessage" => receive::receive(api, request).await,
        "DeleteMessage" => delete::one(api, request),
        "DeleteMessageBatch" => delete::batch(api, request),
        "ChangeMessageVisibility" => visibility::one(api, request),
        "ChangeMessageVisibilityBatch" => visibility::batch(api, request),
        "GetQueueAttributes" => attributes::get(api, request),
        "GetQueueUrl" => names::url(api, request),
        "ListQueues" => names::list(api, request),
        "ListDeadLetterSourceQueues" => names::dead_letter_sources(api, request),
        "PurgeQueue" => delete::purge(api, request),
        "StartMessageMoveTask" => move_task::start(api, request),
        "ListMessageMoveTasks" => move_task::list(api, request),
        "CancelMessageMoveTask" => move_task::cancel(api, request),
        _ => {
            let said = format!("the local SQS does not answer `{operation}`");
            Err(Refused::new("InvalidAction", said))
        }
    }
}
