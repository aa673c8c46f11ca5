//! The configuration that all AWS clients of this crate share: region, credentials, endpoints, timeouts, TLS.

mod access;
mod https;
#[cfg(any(
    feature = "durable-functions",
    feature = "sqs",
    feature = "step-functions"
))]
mod lazy_client;
mod signature;

use std::time::Duration;

use aws_config::environment::EnvironmentVariableCredentialsProvider;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use tokio::sync::OnceCell;

use crate::env::process_env;

pub(crate) use access::access_hint;
#[cfg(any(
    feature = "durable-functions",
    feature = "sqs",
    feature = "step-functions"
))]
pub(crate) use lazy_client::LazyClient;
pub(crate) use signature::SignAgain;
#[cfg(feature = "dynamodb")]
pub(crate) use signature::is_untimely;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);
const ATTEMPTS: u32 = 4;
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Returns the SDK's settings from the environment, with timeouts that the SDK does not set. They are loaded once, so
/// that all clients share credentials and connections. Each client adds [`SignAgain`], which these settings can't hold.
pub(crate) async fn config() -> &'static SdkConfig {
    static CONFIG: OnceCell<SdkConfig> = OnceCell::const_new();
    CONFIG.get_or_init(load).await
}

async fn load() -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(https::client())
        // Not needed: the timeouts below are tighter, and no response is a stream.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(
            TimeoutConfig::builder()
                .connect_timeout(CONNECT_TIMEOUT)
                .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                .operation_timeout(OPERATION_TIMEOUT)
                .build(),
        )
        .retry_config(
            RetryConfig::standard()
                .with_max_attempts(ATTEMPTS)
                .with_initial_backoff(FIRST_BACKOFF),
        );
    // The default chain would find these first too, but it builds clients for the sources that come after them.
    let is_set = |name| process_env(name).is_some_and(|value| !value.trim().is_empty());
    if is_set("AWS_ACCESS_KEY_ID") && is_set("AWS_SECRET_ACCESS_KEY") {
        loader = loader.credentials_provider(EnvironmentVariableCredentialsProvider::new());
    }
    loader.load().await
}
