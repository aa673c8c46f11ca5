//! Engines side by side, behind one wire: each request goes to all of them.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use serde_json::Value as Json;

use super::deviations::{Answers, Deviations};
use super::engines::{Engine, everything, normalised};

/// Engines that are asked the same.
#[derive(Clone)]
pub(crate) struct Compared(Arc<Mutex<State>>);

struct State {
    /// The first is ours.
    engines: Vec<Box<dyn Engine>>,
    deviations: Deviations,
    /// What a token begins with: engines remember them for longer than a run and a case last.
    run: u32,
    case: u64,
    differences: Vec<String>,
    operations: usize,
    requests: usize,
    refused: usize,
}

/// What was compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) operations: usize,
    pub(crate) requests: usize,
    pub(crate) refused: usize,
}

impl Compared {
    pub(crate) fn new(engines: Vec<Box<dyn Engine>>, deviations: Deviations) -> Self {
        Self(Arc::new(Mutex::new(State {
            engines,
            deviations,
            run: RandomState::new().hash_one(0) as u32,
            case: 0,
            differences: Vec::new(),
            operations: 0,
            requests: 0,
            refused: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What panics inside an engine is one of its answers: it is told, and the next history goes on.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next case: its tokens are new, and what the last one left when it panicked is forgotten.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.case += 1;
        state.differences.clear();
    }

    /// Whether this case has come to a difference.
    pub(crate) fn is_different(&self) -> bool {
        !self.state().differences.is_empty()
    }

    /// Asks all engines, and gives our answer.
    pub(crate) fn carry_out(
        &self,
        operation: &str,
        mut body: Json,
        operations: usize,
    ) -> (u16, Json) {
        let state = &mut *self.state();
        state.operations += operations;
        state.requests += 1;
        if let Some(token) = body.get_mut("ClientRequestToken") {
            // At most 36 characters. Those of the store differ in their ends.
            let token_end = token.as_str().unwrap();
            let token_end = &token_end[token_end.len().saturating_sub(8)..];
            *token = format!("{:x}-{}-{token_end}", state.run, state.case).into();
        }
        let text = body.to_string();
        let ours = state.engines[0].carry_out(operation, &text);
        state.refused += usize::from(ours.0 != 200);
        for engine in &mut state.engines[1..] {
            let theirs = engine.carry_out(operation, &text);
            let both = (normalised(ours.1.clone()), normalised(theirs.1.clone()));
            let answers = Answers {
                operation,
                body: &body,
                ours: &both.0,
                theirs: &both.1,
            };
            let is_same = ours.0 == theirs.0 && both.0 == both.1;
            if !is_same && !state.deviations.explain(engine.name(), &answers) {
                state.differences.push(format!(
                    "{operation} {text}\n  ours: {} {}\n  {}: {} {}",
                    ours.0,
                    ours.1,
                    engine.name(),
                    theirs.0,
                    theirs.1
                ));
            }
        }
        ours
    }

    /// Compares the contents of all tables, and gives what differed since the last time.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut state = self.state();
        let mut differences = std::mem::take(&mut state.differences);
        let ours = everything(state.engines[0].as_mut());
        for engine in &mut state.engines[1..] {
            let theirs = everything(engine.as_mut());
            if ours != theirs {
                differences.push(format!(
                    "in the end\n  ours: {ours:?}\n  {}: {theirs:?}",
                    engine.name()
                ));
            }
        }
        differences
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.state();
        Counts {
            operations: state.operations,
            requests: state.requests,
            refused: state.refused,
        }
    }

    /// The known deviations of an engine, and how often each was met.
    pub(crate) fn deviations(&self, engine: &str) -> Vec<(&'static str, usize)> {
        self.state().deviations.of(engine)
    }

    /// A client whose requests go to all engines.
    pub(crate) fn client(&self) -> Client {
        let connector = SharedHttpConnector::new(self.clone());
        let config = Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
            .endpoint_url("http://127.0.0.1:1")
            .http_client(http_client_fn(move |_, _| connector.clone()))
            .retry_config(RetryConfig::disabled())
            .build();
        Client::from_conf(config)
    }
}

impl fmt::Debug for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compared").finish_non_exhaustive()
    }
}

impl HttpConnector for Compared {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        let body: Json = serde_json::from_slice(body).unwrap();
        let operations = ["Statements", "TransactItems"]
            .iter()
            .filter_map(|list| body[list].as_array())
            .map(Vec::len)
            .next();
        let (status, answer) = self.carry_out(operation, body, operations.unwrap_or(1));
        let answer = HttpResponse::new(status.try_into().unwrap(), answer.to_string().into());
        HttpConnectorFuture::ready(Ok(answer))
    }
}
