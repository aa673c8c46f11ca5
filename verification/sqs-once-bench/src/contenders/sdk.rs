//! The SDK's client, configured as in sqs-once: with TLS and without stalled stream protection.

use aws_config::BehaviorVersion;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_sdk_dynamodb::Client;
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};

pub(crate) async fn client() -> Client {
    let http_client = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let config = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::new(&config.load().await)
}
