//! The SQS API in its JSON protocol.

mod attributes;
mod batch;
mod message_attributes;
mod move_task;
mod names;
mod parameters;
mod receipts;
mod receive;
mod refused;
pub(super) mod send;

use super::queues::Queues;
use crate::local_event::LocalEvent;
use crate::lock;
use crate::message::url;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use move_task::MoveTask;
use refused::Refused;
use serde::de::DeserializeOwned;
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

pub(super) struct Api {
    queues: Arc<Mutex<Queues>>,
    address: SocketAddr,
    started: SystemTime,
    /// Wakes the requests that wait for messages after every change to a message.
    changed: Arc<Notify>,
    /// In the order in which they were started.
    moves: Mutex<Vec<MoveTask>>,
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

    fn moves(&self) -> MutexGuard<'_, Vec<MoveTask>> {
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
    let mut response = match answer(&api, &method, &headers, body).await {
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
    method: &Method,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    if method != Method::POST {
        let refused = Refused::new("InvalidAction", "the local SQS accepts POST requests only");
        return Err(refused.with_status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let content_type = header("content-type").unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    if !content_type.eq_ignore_ascii_case(JSON) {
        let text = format!("the local SQS speaks the JSON protocol: the content type is {JSON}");
        let refused = Refused::new("UnsupportedMediaType", text);
        return Err(refused.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let target = header("x-amz-target").unwrap_or_default();
    let operation = target.strip_prefix("AmazonSQS.").unwrap_or_default();
    let body = body.map_err(|error| Refused::new("RequestEntityTooLarge", error.body_text()))?;
    let request = &parameters::parse(&body)?;
    match operation {
        "SendMessage" => single(api, request, send::send),
        "SendMessageBatch" => batch::each(api, request, send::check_size, send::send),
        "ReceiveMessage" => receive::receive(api, request).await,
        "DeleteMessage" => single(api, request, receipts::delete),
        "DeleteMessageBatch" => batch::each(api, request, |_| Ok(()), receipts::delete),
        "ChangeMessageVisibility" => single(api, request, receipts::change_visibility),
        "ChangeMessageVisibilityBatch" => {
            batch::each(api, request, |_| Ok(()), receipts::change_visibility)
        }
        "GetQueueAttributes" => single(api, request, attributes::get),
        "GetQueueUrl" => names::url(api, request),
        "ListQueues" => names::list(api, request),
        "ListDeadLetterSourceQueues" => single(api, request, names::dead_letter_sources),
        "PurgeQueue" => single(api, request, receipts::purge),
        "StartMessageMoveTask" => move_task::start(api, request),
        "ListMessageMoveTasks" => move_task::list(api, request),
        "CancelMessageMoveTask" => move_task::cancel(api, request),
        _ => {
            let text = format!("the local SQS does not answer `{operation}`");
            Err(Refused::new("InvalidAction", text))
        }
    }
}

/// Answers a request that names one queue.
fn single<T: DeserializeOwned>(
    api: &Api,
    request: &Value,
    operation: impl FnOnce(&Api, &str, T) -> Answer,
) -> Answer {
    let queue = parameters::queue(request)?;
    operation(api, &queue, parameters::read(request)?)
}
