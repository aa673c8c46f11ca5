//! The user's own AWS settings.

use std::time::Duration;

use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig, profile};
use aws_smithy_http_client::tls::{self, rustls_provider::CryptoMode};

use crate::Error;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Reading a page of a large table takes longer than the SDK's usual timeouts.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(15);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(45);

/// The user's settings, found as the AWS CLI finds them: environment, profiles, SSO, a credential process, or the role
/// of a container or instance. `AWS_ENDPOINT_URL_DYNAMODB` and `AWS_ENDPOINT_URL_SQS` set endpoints, as in every AWS
/// SDK.
///
/// # Errors
/// [`Error::Profiles`] if the profiles can't be read, [`Error::NoProfile`] if the profile does not exist, and
/// [`Error::NoRegion`] or [`Error::NoProfileRegion`] if no region is configured.
pub async fn sdk_config(profile: Option<&str>, region: Option<&str>) -> Result<SdkConfig, Error> {
    let http_client = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT)
        .build();
    let chosen = profile
        .map(str::to_owned)
        .or_else(|| variable("AWS_PROFILE"));
    // With keys in the environment, the SDK needs no profile.
    if let Some(profile) = &chosen
        && variable("AWS_ACCESS_KEY_ID").is_none()
        && !has_profile(profile).await?
    {
        let profile = profile.clone();
        return Err(Error::NoProfile { profile });
    }
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .timeout_config(timeouts);
    if let Some(profile) = profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    let config = loader.load().await;
    match config.region() {
        Some(_) => Ok(config),
        None => Err(match chosen {
            Some(profile) => Error::NoProfileRegion { profile },
            None => Error::NoRegion,
        }),
    }
}

/// Whether the user's files have this profile, as the SDK reads them.
async fn has_profile(name: &str) -> Result<bool, Error> {
    // The process's files and variables, in the usual places.
    let (files, variables, places) = Default::default();
    let profiles = profile::load(&files, &variables, &places, None).await?;
    Ok(name == "default" || profiles.get_profile(name).is_some())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The account of the credentials, if their provider reports it.
pub async fn account(config: &SdkConfig) -> Option<String> {
    use aws_credential_types::provider::ProvideCredentials;
    let provider = config.credentials_provider()?;
    let credentials = provider.provide_credentials().await.ok()?;
    credentials.account_id().map(|id| id.as_str().to_owned())
}
