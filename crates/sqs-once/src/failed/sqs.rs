//! The client of SQS, and its errors.

use std::error::Error;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::config::retry::RetryPartition;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};

use crate::aws;
use crate::error::chain;

pub(super) async fn client_from_env() -> Client {
    let config = Builder::from(aws::config().await)
        .retry_partition(RetryPartition::new("sqs-once"))
        .retry_classifier(aws::SignAgain)
        .build();
    Client::from_conf(config)
}

/// Formats an error in one line. Leaves out SQS's own message, because it quotes receipt handles and message groups.
pub(super) fn describe<E>(error: &SdkError<E>, action: &str) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if error.as_service_error().is_none() {
        return chain(error);
    }
    let code = error.code().unwrap_or("an error without a code");
    let help = if code.contains("AccessDenied") {
        format!(": the function's role must allow {action} on the queue")
    } else if code.contains("NonExistentQueue") || code.contains("QueueDoesNotExist") {
        ": no queue has that URL".to_owned()
    } else {
        String::new()
    };
    format!("SQS answered {code}{help}")
}

/// Returns the six parts of an ARN, such as `arn:aws:sqs:eu-central-1:123456789012:orders`.
pub(super) fn arn_parts(arn: &str) -> Option<[&str; 6]> {
    let mut parts = arn.split(':');
    let mut all = [""; 6];
    for part in &mut all {
        *part = parts.next()?;
    }
    Some(all)
}
