//! The HTTP routes that a function's runtime calls.

use super::{Answer, FunctionError, InvokeError, Shared};
use crate::{ACCOUNT_ID, REGION, millis};
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use std::sync::Arc;
use std::time::SystemTime;
use uuid::Uuid;

/// The largest answer that Lambda accepts: 6 MB and a little for the envelope.
pub(super) const ANSWER_LIMIT: usize = 6 * 1024 * 1024 + 100;

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
    body: Result<Bytes, BytesRejection>,
) -> Response {
    match body {
        Ok(answer) => finish(&shared, &request_id, Ok(answer)),
        Err(rejection) => {
            let limit = ANSWER_LIMIT;
            let error = InvokeError::AnswerTooLarge { limit };
            finish(&shared, &request_id, Err(error));
            rejection.into_response()
        }
    }
}

async fn error(
    State(shared): State<Arc<Shared>>,
    Path(request_id): Path<String>,
    body: Bytes,
) -> Response {
    let error = FunctionError::parse(&body);
    finish(&shared, &request_id, Err(InvokeError::Function(error)))
}

fn finish(shared: &Shared, request_id: &str, answer: Answer) -> Response {
    // An answer without a waiting caller came after the deadline or a second time.
    let delivered = shared
        .finish(request_id)
        .is_some_and(|caller| caller.send(answer).is_ok());
    if delivered {
        accepted()
    } else {
        let refusal = json!({
            "errorType": "InvalidRequestID",
            "errorMessage": "no such invocation is waiting for an answer",
        });
        (StatusCode::BAD_REQUEST, Json(refusal)).into_response()
    }
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
