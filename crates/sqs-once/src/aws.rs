//! The configuration that all AWS clients of this crate share: region, credentials, endpoints, timeouts, TLS.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{HttpClient, http_client_fn};
use tokio::sync::OnceCell;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);
const ATTEMPTS: u32 = 4;
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Returns the SDK's settings from the environment, with timeouts that the SDK does not set. They are loaded once, so
/// that all clients share credentials and connections.
pub(crate) async fn config() -> &'static SdkConfig {
    static CONFIG: OnceCell<SdkConfig> = OnceCell::const_new();
    CONFIG.get_or_init(load).await
}

async fn load() -> SdkConfig {
    // ring builds faster than the SDK's default TLS provider and starts faster.
    let https = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    // Otherwise the SDK would also build a throw-away connector for each client as a check, and parse all of the
    // system's root certificates for it.
    let http_client =
        http_client_fn(move |settings, components| https.http_connector(settings, components));
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client)
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
        )
        .load()
        .await
}
