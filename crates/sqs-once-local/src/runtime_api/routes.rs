//! The HTTP routes that a function's runtime calls.

use super::{Answer, FunctionError, InvokeError, Shared};
use crate::{ACCOUNT_ID, REGION, lock, millis};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use std::sync::Arc;
use std::time::SystemTime;
use uuid::Uuid;

/// The largest answer that Lambda accepts: 6 MB and a little for the envelope.
pub(super) const ANSWER_LIMIT: usize = 6 * 1024 * 1024 + 100;

/// A runtime that knows this header of an event sends it back with its answer.
const INVOCATION_ID: &str = "lambda-runtime-invocation-id";

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let runtime = Router::new()
        .route("/invocation/next", get(next))
        .route("/invocation/{request_id}/response", post(response))
        .route("/invocation/{request_id}/error", post(error))
        .route("/init/error", post(init_error));
    let extensions = Router::new()
        .route("/register", post(register))
        .route("/event/next", get(std::future::pending::<Response>));
    Router::new()
        .nest("/2018-06-01/runtime", runtime)
        .nest("/2020-01-01/extension", extensions)
        .with_state(shared)
}

/// Waits for an event without a time limit, as on Lambda.
async fn next(State(shared): State<Arc<Shared>>) -> Response {
    let _asks = Asks::new(&shared);
    let mut queue = shared.queue.lock().await;
    loop {
        // `None` is impossible: the sender lives as long as the receiver.
        let Some(invocation) = queue.recv().await else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        // The sender of this event may have stopped waiting.
        if invocation.taken.send(()).is_err() {
            continue;
        }
        let deadline_ms = millis(SystemTime::now() + invocation.timeout);
        let name = &shared.function_name;
        let arn = format!("arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{name}");
        let headers = [
            ("lambda-runtime-aws-request-id", invocation.request_id),
            (INVOCATION_ID, invocation.invocation_id),
            ("lambda-runtime-deadline-ms", deadline_ms.to_string()),
            ("lambda-runtime-invoked-function-arn", arn),
            ("lambda-runtime-trace-id", trace_id()),
            ("content-type", "application/json".to_owned()),
        ]
        .map(|(header, value)| (HeaderName::from_static(header), value));
        return (headers, invocation.payload).into_response();
    }
}

/// Counts a runtime that waits for an event.
struct Asks<'a>(&'a Shared);

impl<'a> Asks<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.asking.send_modify(|asking| *asking += 1);
        Self(shared)
    }
}

impl Drop for Asks<'_> {
    fn drop(&mut self) {
        self.0.asking.send_modify(|asking| *asking -= 1);
    }
}

/// Generates an X-Ray trace id as Lambda sends it, not sampled.
fn trace_id() -> String {
    let seconds = millis(SystemTime::now()) / 1000;
    let root = Uuid::new_v4().simple().to_string();
    let parent = Uuid::new_v4().simple().to_string();
    format!(
        "Root=1-{seconds:08x}-{};Parent={};Sampled=0",
        &root[..24],
        &parent[..16]
    )
}

async fn response(
    State(shared): State<Arc<Shared>>,
    Path(request_id): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let (answer, rejection) = match body {
        Ok(answer) => (Ok(answer), None),
        Err(rejection) => {
            let limit = ANSWER_LIMIT;
            let error = InvokeError::AnswerTooLarge { limit };
            (Err(error), Some(rejection))
        }
    };
    let response = finish(&shared, &request_id, &headers, answer);
    match rejection {
        Some(rejection) if response.status() == StatusCode::ACCEPTED => rejection.into_response(),
        _ => response,
    }
}

async fn error(
    State(shared): State<Arc<Shared>>,
    Path(request_id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let error = FunctionError::parse(&body);
    let answer = Err(InvokeError::Function(error));
    finish(&shared, &request_id, &headers, answer)
}

/// Passes an answer on to the invocation's caller. An invocation is answered once. An answer that names another
/// invocation leaves the running one as it is.
fn finish(shared: &Shared, request_id: &str, headers: &HeaderMap, answer: Answer) -> Response {
    let mut all = lock(&shared.running);
    let Some(running) = all.get(request_id) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "InvalidRequestID",
            "no such invocation is waiting for an answer",
        );
    };
    let named = headers.get(INVOCATION_ID);
    let is_stale = named.is_some_and(|id| id.as_bytes() != running.invocation_id.as_bytes());
    let caller = match is_stale {
        true => None,
        false => all.remove(request_id).map(|running| running.caller),
    };
    match caller.map(|caller| caller.send(answer)) {
        Some(Ok(())) => accepted(),
        _ => refused(StatusCode::GONE, "InvokeTimeout", "Invoke timeout"),
    }
}

/// Refuses an answer in the form that Lambda uses.
fn refused(status: StatusCode, error_type: &str, error_message: &str) -> Response {
    let refusal = json!({"errorType": error_type, "errorMessage": error_message});
    (status, Json(refusal)).into_response()
}

async fn init_error(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    shared
        .init_error
        .send_replace(Some(FunctionError::parse(&body)));
    accepted()
}

fn accepted() -> Response {
    (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response()
}

async fn register(State(shared): State<Arc<Shared>>) -> Response {
    let identifier = HeaderName::from_static("lambda-extension-identifier");
    let body = json!({
        "functionName": shared.function_name,
        "functionVersion": "$LATEST",
        "handler": "bootstrap",
        "accountId": ACCOUNT_ID,
    });
    ([(identifier, Uuid::new_v4().to_string())], Json(body)).into_response()
}
