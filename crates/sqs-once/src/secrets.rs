//! Fetches secrets from AWS Secrets Manager.

use aws_sdk_secretsmanager::Client;
use aws_sdk_secretsmanager::config::retry::RetryPartition;
use aws_sdk_secretsmanager::config::{Builder, Region};
use aws_sdk_secretsmanager::error::ProvideErrorMetadata;

use futures_util::future::BoxFuture;

use crate::aws;
use crate::error::{ConfigError, chain};
use crate::key::KeySecret;

/// Fetches the current value of the secret with this ARN: its unchanged text or its bytes.
///
/// Boxed, because a `main` whose future contains the SDK's futures comes close to rustc's recursion limit.
pub(crate) fn fetch<'a>(
    variable: &'static str,
    arn: &'a str,
) -> BoxFuture<'a, Result<KeySecret, ConfigError>> {
    Box::pin(async move {
        // The secret may be in another Region than the function.
        let region = arn.split(':').nth(3).unwrap_or_default();
        let config = Builder::from(aws::config().await)
            .region(Region::new(region.to_owned()))
            .retry_partition(RetryPartition::new("sqs-once secrets"))
            .retry_classifier(aws::SignAgain)
            .build();
        let request = Client::from_conf(config).get_secret_value().secret_id(arn);
        let answer = request.send().await.map_err(|error| {
            let (code, message) = (error.code(), error.message());
            let hint = aws::access_hint(code.unwrap_or_default(), message.unwrap_or_default());
            // Not the `Debug` form, which shows the whole response with the secret.
            let problem = format!(
                "names a secret that could not be fetched ({})",
                chain(&error)
            );
            ConfigError::invalid(
                variable,
                problem,
                hint.unwrap_or(
                    "a secret that the function's role may read (secretsmanager:GetSecretValue)",
                ),
            )
        })?;
        let text = answer.secret_string().map(str::as_bytes);
        let bytes = answer.secret_binary().map(AsRef::as_ref);
        KeySecret::from_setting(variable, text.or(bytes).unwrap_or_default())
    })
}
