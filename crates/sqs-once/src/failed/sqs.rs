//! The client of SQS, and its errors.

use std::error::Error;

use aws_config::SdkConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::config::retry::RetryPartition;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};

use crate::aws;
use crate::error::chain;

/// A client that its first use creates, unless the code has set it. Clones share it.
pub(super) type LazyClient = aws::LazyClient<Client>;

pub(super) fn connect(config: &SdkConfig) -> Client {
    let config = Builder::from(config)
        .retry_partition(RetryPartition::new("sqs-once"))
        .retry_classifier(aws::SignAgain)
        .build();
    Client::from_conf(config)
}

/// A part of the error's code if the role lacks a permission.
pub(super) const DENIED: &str = "AccessDenied";

/// Formats an error in one line. SQS's own message may quote receipt handles and message groups, except about access.
pub(super) fn describe<E>(error: &SdkError<E>, action: &str) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
{
    if error.as_service_error().is_none() {
        return format!("SQS did not answer: {}", chain(error));
    }
    let code = error.code().unwrap_or("an error without a code");
    let message = error.message().unwrap_or_default();
    let help = if let Some(hint) = aws::access_hint(code, message) {
        format!(" ({message}): {hint}")
    } else if code.contains(DENIED) {
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
