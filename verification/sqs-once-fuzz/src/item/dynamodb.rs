//! A DynamoDB with prepared answers.

use std::cell::RefCell;
use std::collections::VecDeque;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Config, Credentials, IdentityCache, Region, StalledStreamProtectionConfig,
};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use serde_json::Value;

pub(super) const TABLE: &str = "t";

#[derive(Clone, Debug)]
pub(super) struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    /// Reads a status, a space and the body. `None` if HTTP does not have the status.
    pub(super) fn read(line: &str) -> Option<Self> {
        let (status, body) = line.split_once(' ')?;
        let status = status
            .parse()
            .ok()
            .filter(|status| (200..600).contains(status))?;
        Some(Self {
            status,
            body: body.to_owned(),
        })
    }

    pub(super) fn is_success(&self) -> bool {
        self.status < 300
    }

    pub(super) fn is_almost_json(&self) -> bool {
        self.body.trim_start().starts_with('{') && self.json().is_none()
    }

    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_str(&self.body).ok()
    }
}

thread_local! {
    static ANSWERS: RefCell<VecDeque<Answer>> = const { RefCell::new(VecDeque::new()) };
}

/// Sets the answers of the next requests. Later requests fail.
pub(super) fn answer_with(answers: &[Answer]) {
    ANSWERS.set(answers.iter().cloned().collect());
}

/// A client without a network.
pub(super) fn client() -> Client {
    let connector = SharedHttpConnector::new(Answers);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .credentials_provider(Credentials::new("fuzz", "fuzz", None, None, "fuzz"))
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .identity_cache(IdentityCache::no_cache())
        .region(Region::new("eu-central-1"))
        .retry_config(RetryConfig::disabled())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

#[derive(Debug)]
struct Answers;

impl HttpConnector for Answers {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        let answer = ANSWERS.with_borrow_mut(VecDeque::pop_front);
        let (status, body) = answer.map_or((500, String::new()), |one| (one.status, one.body));
        let status = status.try_into().expect("a status of HTTP");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, body.into())))
    }
}
