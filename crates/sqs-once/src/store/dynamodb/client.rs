//! The SDK client that `from_env` makes.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);
const ATTEMPTS: u32 = 4;
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

pub(super) async fn from_env() -> Client {
    // ring builds faster than the SDK's default TLS provider and starts faster.
    let http_client = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let shared = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client)
        .load()
        .await;
    let config = Builder::from(&shared)
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
        )
        // Without a partition of its own the store shares one retry budget with every other client
        // of DynamoDB in the process, and a throttled one would starve it.
        .retry_partition(RetryPartition::new("sqs-once"))
        .build();
    Client::from_conf(config)
}
