//! Step Functions and durable Lambda functions, as far as a consumer starts their executions.

use crate::guard::{Port, Server};
use crate::{ACCOUNT_ID, REGION, lock};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// The largest input that Lambda accepts, with room for the rest of a request. Step Functions accepts 256 KiB.
const LARGEST_REQUEST: usize = 2 * 1024 * 1024;

/// When each execution started, in seconds since the Unix epoch.
const STARTED: u32 = 1_790_000_000;

/// Step Functions and durable Lambda functions on 127.0.0.1: starts executions and describes them, and carries out none. An
/// execution runs until [`end`](Self::end).
///
/// Requests from web pages in a browser are refused. The server stops when it is dropped.
pub struct LocalExecutions {
    server: Server,
    started: Started,
}

type Started = Arc<Mutex<Vec<Execution>>>;

/// An execution that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Its ARN.
    pub arn: String,
    /// The ARN of its state machine, or the name of its durable function, without a version and an alias.
    pub target: String,
    /// Its name.
    pub name: String,
    /// Its input, as JSON.
    pub input: String,
    /// `RUNNING`, until [`LocalExecutions::end`] sets another word.
    pub status: String,
}

impl LocalExecutions {
    /// Starts without executions. Port 0 means any free port.
    ///
    /// # Errors
    /// If the port is not available.
    pub async fn start(port: u16) -> io::Result<Self> {
        let port = Port::take(port).await?;
        let started = Started::default();
        let routes = Router::new()
            .route("/", post(step_functions))
            .route("/2015-03-31/functions/{name}/invocations", post(invoke))
            .route("/2025-12-01/durable-executions/{arn}", get(get_execution))
            .route(
                "/2025-12-01/functions/{name}/durable-executions",
                get(list_executions),
            );
        let routes = routes.fallback(async || NOT_HERE);
        let server = port.serve(routes.with_state(Arc::clone(&started)), LARGEST_REQUEST);
        Ok(Self { server, started })
    }

    /// The endpoint for the SDKs of both services, such as `http://127.0.0.1:40001`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The executions in the order of their starts.
    pub fn all(&self) -> Vec<Execution> {
        lock(&self.started).clone()
    }

    /// Ends all running executions with AWS's word for their status, such as `SUCCEEDED` or `FAILED`.
    pub fn end(&self, status: &str) {
        for execution in lock(&self.started).iter_mut() {
            if execution.status == "RUNNING" {
                status.clone_into(&mut execution.status);
            }
        }
    }
}

/// The HTTP status and the code of an error.
struct Refused(u16, &'static str);

const NOT_HERE: Refused = Refused(501, "NotImplemented");

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, code) = self;
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let body = json!({ "__type": code, "message": "from the local executions" });
        let header = (HeaderName::from_static("x-amzn-errortype"), code);
        (status, [header], axum::Json(body)).into_response()
    }
}

async fn step_functions(
    State(started): State<Started>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| request[name].as_str().unwrap_or_default();
    let mut started = lock(&started);
    let answer = match headers.get("x-amz-target").map(|it| it.as_bytes()) {
        Some(b"AWSStepFunctions.StartExecution") => {
            let parts: Vec<_> = text("stateMachineArn").split(':').take(7).collect();
            let target = parts.join(":");
            let (name, input) = (text("name"), text("input"));
            let same = |it: &&Execution| it.target == target && it.name == name;
            if let Some(earlier) = started.iter().find(same) {
                if earlier.status != "RUNNING" || earlier.input != input {
                    return Err(Refused(400, "ExecutionAlreadyExists"));
                }
                json!({ "executionArn": earlier.arn, "startDate": STARTED })
            } else {
                let machine = target.replacen(":stateMachine:", ":execution:", 1);
                let arn = format!("{machine}:{name}");
                let answer = json!({ "executionArn": arn, "startDate": STARTED });
                started.push(Execution::running(arn, target, name, input));
                answer
            }
        }
        Some(b"AWSStepFunctions.DescribeExecution") => {
            let arn = text("executionArn");
            let execution = started.iter().find(|it| it.arn == arn);
            let execution = execution.ok_or(Refused(400, "ExecutionDoesNotExist"))?;
            json!({
                "executionArn": arn, "stateMachineArn": execution.target, "name": execution.name,
                "status": execution.status, "startDate": STARTED, "input": execution.input,
            })
        }
        _ => return Err(NOT_HERE),
    };
    Ok(axum::Json(answer).into_response())
}

async fn invoke(
    State(started): State<Started>,
    Path(function): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Result<Response, Refused> {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let (Some("Event"), Some(name)) = (
        header("x-amz-invocation-type"),
        header("x-amz-durable-execution-name"),
    ) else {
        return Err(NOT_HERE);
    };
    let target = unqualified(&function);
    let mut started = lock(&started);
    let same = |it: &&Execution| it.target == target && it.name == name;
    let arn = match started.iter().find(same) {
        Some(earlier) if earlier.input != body => {
            return Err(Refused(409, "DurableExecutionAlreadyStartedException"));
        }
        Some(earlier) => earlier.arn.clone(),
        None => {
            let function = format!("arn:aws:lambda:{REGION}:{ACCOUNT_ID}:function:{function}");
            let arn = format!("{function}/durable-execution/{name}/1");
            started.push(Execution::running(arn.clone(), target, name, &body));
            arn
        }
    };
    let header = (HeaderName::from_static("x-amz-durable-execution-arn"), arn);
    Ok((StatusCode::ACCEPTED, [header]).into_response())
}

async fn get_execution(
    State(started): State<Started>,
    Path(arn): Path<String>,
) -> Result<axum::Json<Value>, Refused> {
    let started = lock(&started);
    let execution = started.iter().find(|it| it.arn == arn);
    let execution = execution.ok_or(Refused(404, "ResourceNotFoundException"))?;
    let mut shown = execution.durable();
    shown["InputPayload"] = execution.input.clone().into();
    Ok(axum::Json(shown))
}

async fn list_executions(
    State(started): State<Started>,
    Path(function): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> axum::Json<Value> {
    let target = unqualified(&function);
    let name = query.get("DurableExecutionName");
    let started = lock(&started);
    let named = started.iter().filter(|it| it.target == target);
    let named = named.filter(|it| name.is_none_or(|name| it.name == *name));
    let named: Vec<_> = named.map(Execution::durable).collect();
    axum::Json(json!({ "DurableExecutions": named }))
}

/// The name of a function without its version, its alias and the parts of an ARN.
fn unqualified(function: &str) -> String {
    let name = function.rsplit(":function:").next().unwrap_or(function);
    name.split(':').next().unwrap_or(name).to_owned()
}

impl Execution {
    fn running(arn: String, target: String, name: &str, input: &str) -> Self {
        Self {
            arn,
            target,
            name: name.to_owned(),
            input: input.to_owned(),
            status: "RUNNING".to_owned(),
        }
    }

    fn durable(&self) -> Value {
        json!({
            "DurableExecutionArn": self.arn, "DurableExecutionName": self.name, "FunctionArn": self.target,
            "Status": self.status, "StartTimestamp": STARTED,
        })
    }
}
