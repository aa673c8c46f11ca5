//! Errors of this crate.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use sqs_once::ConfigError;
use sqs_once::key::KeyError;
use sqs_once::store::{StoreError, StoreErrorKind};
use thiserror::Error as ThisError;

/// The advice for missing credentials.
const SIGN_IN: &str = "sign in, such as by `aws sso login`, or set AWS_PROFILE";

/// An operation on a key or a dead-letter queue failed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The table did not answer.
    #[error(transparent)]
    Store(StoreError),
    /// A key given by its parts needs a namespace.
    #[error(
        "a key needs its consumer's namespace: give --namespace, or set SQS_ONCE_NAMESPACE \
         (in the table, it is what stands before the `#`)"
    )]
    NoNamespace,
    /// The namespace is invalid.
    #[error(transparent)]
    Namespace(#[from] ConfigError),
    /// The key is invalid.
    #[error("the key is invalid")]
    Key(#[from] KeyError),
    /// The name of a breaker is invalid.
    #[error(
        "{name:?} is not a dependency's name, which has 1 to 50 letters, digits, `-`, `_` and `.`"
    )]
    BreakerName {
        /// The name.
        name: String,
    },
    /// No AWS region is configured.
    #[error("no AWS region is known: set AWS_REGION, or put one into the profile")]
    NoRegion,
    /// An SQS request failed.
    #[error("SQS did not carry out {action}: {advice}")]
    Queue {
        /// The action, as in an IAM policy.
        action: &'static str,
        /// What to do about it.
        advice: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The source queue is ambiguous or unknown.
    #[error(
        "pass the target queue with --to: {} have this dead-letter queue{}",
        match found.len() { 0 => "no queues".to_owned(), count => format!("{count} queues") },
        found.iter().map(|url| format!("\n    {url}")).collect::<String>()
    )]
    Sources {
        /// The queues that have this dead-letter queue.
        found: Vec<String>,
    },
    /// The source and the target are the same queue.
    #[error("the target queue is the dead-letter queue itself")]
    SameQueue,
}

impl Error {
    pub(crate) fn queue(
        action: &'static str,
        advice: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Queue {
            action,
            advice,
            source: source.into(),
        }
    }

    /// An error of a request to SQS that should never happen.
    pub fn unexpected(
        action: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::queue(action, "please report it", source)
    }

    /// Words an error of SQS for an action, such as `sqs:SendMessage`, with the advice for its kind.
    pub fn of_sqs<E>(action: &'static str) -> impl FnOnce(SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        move |error| {
            let Some(code) = error.code() else {
                let advice = match without_credentials(&error) {
                    true => SIGN_IN,
                    false => "check the network, AWS_REGION and AWS_PROFILE",
                };
                return Self::queue(action, advice, error);
            };
            let advice = match code {
                "AWS.SimpleQueueService.NonExistentQueue" | "QueueDoesNotExist" => {
                    "check the queue's name, AWS_REGION and AWS_PROFILE"
                }
                "AccessDenied" | "AccessDeniedException" | "KMS.AccessDeniedException" => {
                    "your credentials must permit it"
                }
                "ExpiredToken" | "ExpiredTokenException" | "InvalidClientTokenId" => {
                    "sign in again, or set AWS_PROFILE to another profile"
                }
                "InvalidAction"
                | "UnknownOperationException"
                | "AWS.SimpleQueueService.UnsupportedOperation" => {
                    "this endpoint does not offer it: check AWS_ENDPOINT_URL_SQS"
                }
                "RequestThrottled" | "ThrottlingException" => "wait a moment",
                _ => "see the cause",
            };
            let message = error.message().unwrap_or("no more is known");
            Self::queue(action, advice, format!("{code}: {message}"))
        }
    }
}

fn without_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_it = matches!(
        error.downcast_ref(),
        Some(CredentialsError::CredentialsNotLoaded(_))
    );
    is_it || error.source().is_some_and(without_credentials)
}

/// Words the error for a user with credentials, who may have no function.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let fix = match error.kind() {
            StoreErrorKind::AccessDenied => {
                "your credentials need dynamodb:BatchGetItem on the table, to list dynamodb:Scan (or \
                 dynamodb:Query, with a sort key), and to change something dynamodb:UpdateItem"
            }
            StoreErrorKind::NoCredentials => SIGN_IN,
            StoreErrorKind::TableNotFound => "check --table, AWS_REGION and AWS_PROFILE",
            StoreErrorKind::KeySchema => {
                "by default it has the partition key `id` of type S and no sort key: see --attribute"
            }
            StoreErrorKind::Throttled => "wait a moment, or raise the table's capacity",
            StoreErrorKind::Unanswered => "check the network and AWS_REGION",
            _ => return Self::Store(error),
        };
        Self::Store(error.with_fix(fix))
    }
}
