//! What a function itself asks of SQS, served on loopback in the JSON protocol.

use super::{NewMessage, QueueError, Queues};
use crate::{ACCOUNT_ID, REGION};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use uuid::Uuid;

/// SQS on 127.0.0.1, as far as a consumer on Lambda calls it: `SendMessage`, `ChangeMessageVisibility` and
/// `ChangeMessageVisibilityBatch`. Everything else is refused.
///
/// It stops when it is dropped.
pub struct LocalSqs {
    address: SocketAddr,
    queues: Arc<Mutex<Queues>>,
    server: JoinHandle<()>,
}

impl LocalSqs {
    /// Serves these queues.
    ///
    /// # Errors
    /// If no loopback port could be had.
    pub async fn start(queues: Queues) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let queues = Arc::new(Mutex::new(queues));
        let service = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&queues));
        let server = tokio::spawn(async move {
            // It never returns: it tries failed accepts again.
            let _ = axum::serve(listener, service).await;
        });
        Ok(Self {
            address,
            queues,
            server,
        })
    }

    /// The endpoint to give to an AWS SDK, such as `http://127.0.0.1:40001`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A queue's URL.
    pub fn url(&self, queue: &str) -> String {
        format!("{}/{ACCOUNT_ID}/{queue}", self.endpoint())
    }

    /// The queues, to be looked at or changed. Nobody else gets at them as long as the guard lives.
    pub fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    pub(super) fn shared(&self) -> Arc<Mutex<Queues>> {
        Arc::clone(&self.queues)
    }
}

impl Drop for LocalSqs {
    fn drop(&mut self) {
        self.server.abort();
    }
}

pub(super) fn lock(queues: &Mutex<Queues>) -> MutexGuard<'_, Queues> {
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue's ARN.
pub(super) fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}")
}

async fn answer(
    State(queues): State<Arc<Mutex<Queues>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let target = headers.get("x-amz-target");
    let target = target.and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix("AmazonSQS."));
    let answer = match (operation, serde_json::from_slice::<Value>(&body)) {
        (_, Err(error)) => Err(Refused::new("SerializationException", &error)),
        (Some("SendMessage"), Ok(request)) => send(&mut lock(&queues), &request),
        (Some("ChangeMessageVisibility"), Ok(request)) => {
            change(&mut lock(&queues), &request, &request).map(|()| json!({}))
        }
        (Some("ChangeMessageVisibilityBatch"), Ok(request)) => {
            Ok(change_batch(&mut lock(&queues), &request))
        }
        (operation, Ok(_)) => {
            let operation = operation.unwrap_or_default();
            let said = format!("the local SQS does not answer {operation}");
            Err(Refused::new("InvalidAction", &said))
        }
    };
    match answer {
        Ok(answer) => Json(answer).into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// A request that is refused: the error's code and its text.
struct Refused {
    code: &'static str,
    said: String,
}

impl Refused {
    fn new(code: &'static str, said: &dyn ToString) -> Self {
        let said = said.to_string();
        Self { code, said }
    }

    fn missing(parameter: &str) -> Self {
        let said = format!("the request must have the parameter {parameter}");
        Self::new("MissingParameter", &said)
    }
}

impl From<QueueError> for Refused {
    fn from(error: QueueError) -> Self {
        Self::new(error.code(), &error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let kind = format!("com.amazonaws.sqs#{}", self.code);
        let body = json!({"__type": kind, "message": self.said});
        (StatusCode::BAD_REQUEST, Json(body)).into_response()
    }
}

fn text<'a>(request: &'a Value, parameter: &str) -> Result<&'a str, Refused> {
    let value = request[parameter].as_str();
    value.ok_or_else(|| Refused::missing(parameter))
}

/// The last part of a queue's URL is its name.
fn queue(request: &Value) -> Result<&str, Refused> {
    let url = text(request, "QueueUrl")?;
    Ok(url.rsplit('/').next().unwrap_or(url))
}

fn send(queues: &mut Queues, request: &Value) -> Result<Value, Refused> {
    let body = text(request, "MessageBody")?;
    let object = |name: &str| request[name].as_object().cloned();
    let optional = |name: &str| request[name].as_str().map(str::to_owned);
    let trace = &request["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"];
    let message = NewMessage {
        id: Uuid::new_v4().to_string(),
        body: body.to_owned(),
        attributes: object("MessageAttributes").unwrap_or_else(Map::new),
        group_id: optional("MessageGroupId"),
        deduplication_id: optional("MessageDeduplicationId"),
        trace_header: trace.as_str().map(str::to_owned),
    };
    let id = queues.send(queue(request)?, message, SystemTime::now())?;
    let md5 = format!("{:x}", md5::compute(body));
    Ok(json!({"MessageId": id, "MD5OfMessageBody": md5}))
}

/// Changes what an entry says, which in a batch is not the request itself.
fn change(queues: &mut Queues, request: &Value, entry: &Value) -> Result<(), Refused> {
    let seconds = entry["VisibilityTimeout"].as_u64();
    let seconds = seconds.ok_or_else(|| Refused::missing("VisibilityTimeout"))?;
    queues.change_visibility(
        queue(request)?,
        text(entry, "ReceiptHandle")?,
        Duration::from_secs(seconds),
        SystemTime::now(),
    )?;
    Ok(())
}

fn change_batch(queues: &mut Queues, request: &Value) -> Value {
    let entries = request["Entries"].as_array().map_or(&[][..], Vec::as_slice);
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for entry in entries {
        match change(queues, request, entry) {
            Ok(()) => successful.push(json!({"Id": entry["Id"]})),
            Err(Refused { code, said }) => failed.push(json!({
                "Id": entry["Id"], "Code": code, "Message": said, "SenderFault": true,
            })),
        }
    }
    json!({"Successful": successful, "Failed": failed})
}
