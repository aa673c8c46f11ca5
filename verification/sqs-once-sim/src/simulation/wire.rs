//! The wire between the SDK's clients and the simulated services.

use std::fmt;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;

/// The settings of a client whose requests go to `serve`. Schedules must not share a client, because its random numbers
/// and its cached state would leak between them.
pub(super) fn settings<F, A>(
    serve: F,
    attempt_timeout: Duration,
    operation_timeout: Option<Duration>,
    retries: RetryConfig,
) -> SdkConfig
where
    F: Fn(HttpRequest) -> A + Send + Sync + 'static,
    A: Future<Output = Result<HttpResponse, ConnectorError>> + Send + 'static,
{
    let wire = Wire(move |request| HttpConnectorFuture::new(serve(request)));
    let connector = SharedHttpConnector::new(wire);
    let mut timeouts = TimeoutConfig::builder().operation_attempt_timeout(attempt_timeout);
    timeouts.set_operation_timeout(operation_timeout);
    let credentials = Credentials::new("local", "local", None, None, "simulation");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .timeout_config(timeouts.build())
        .retry_config(retries)
        // The protection reads the machine's clock, which is not simulated.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build()
}

/// The part of a request's target that names the operation.
pub(super) fn operation(request: &HttpRequest) -> &str {
    let target = request.headers().get("x-amz-target").unwrap_or_default();
    target.rsplit('.').next().unwrap_or_default()
}

pub(super) fn body(request: &HttpRequest) -> serde_json::Value {
    let body = request.body().bytes().unwrap_or_default();
    serde_json::from_slice(body).unwrap_or_default()
}

pub(super) fn answer(status: u16, body: impl fmt::Display) -> HttpResponse {
    let status = StatusCode::try_from(status).unwrap_or_else(|error| unreachable!("{error}"));
    HttpResponse::new(status, body.to_string().into())
}

pub(super) fn broken() -> ConnectorError {
    ConnectorError::io("the connection broke".into())
}

struct Wire<F>(F);

impl<F> fmt::Debug for Wire<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl<F> HttpConnector for Wire<F>
where
    F: Fn(HttpRequest) -> HttpConnectorFuture + Send + Sync + 'static,
{
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        self.0(request)
    }
}
