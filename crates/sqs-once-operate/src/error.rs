//! Errors of this crate.

use aws_config::imds::client::error::ImdsError;
use aws_config::profile::ProfileFileLoadError;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use sqs_once::ConfigError;
use sqs_once::key::KeyError;
use sqs_once::store::{StoreError, StoreErrorKind};
use thiserror::Error as ThisError;

use crate::DeadLetters;

/// The advice for missing credentials.
const SIGN_IN: &str = "sign in, such as by `aws sso login`, or set AWS_PROFILE";

/// The advice for a metadata service that answers, but with an error.
const FORBIDDEN_METADATA: &str = "the metadata service of this machine gives no credentials: sign in, such as by \
                                  `aws sso login`, set AWS_PROFILE, or give the instance a role";

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
    /// The files with the AWS profiles can't be read.
    #[error("the AWS profiles can't be read: correct the file")]
    Profiles(#[from] ProfileFileLoadError),
    /// The profile does not exist.
    #[error("the AWS profile `{profile}` does not exist: correct AWS_PROFILE")]
    NoProfile {
        /// Its name.
        profile: String,
    },
    /// No AWS region is configured.
    #[error("no AWS region is known: set AWS_REGION, or put one into the profile")]
    NoRegion,
    /// No AWS region is configured, and the profile has none.
    #[error(
        "the AWS profile `{profile}` has no region: set AWS_REGION, or run \
         `aws configure set region REGION --profile {profile}`"
    )]
    NoProfileRegion {
        /// Its name.
        profile: String,
    },
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
    /// SQS does not accept a copy of the message.
    #[error("{id} stays, because SQS refuses its copy: {reason}")]
    Refused {
        /// The message's ID.
        id: String,
        /// SQS's error.
        reason: String,
    },
    /// The message has as many attributes as SQS accepts, and no room for the reason by which it would be restarted.
    #[error(
        "the message {id} has ten attributes, and no room for a reason that says whether its execution has ended: it stays. \
         Send its event again with fewer attributes, or redrive it without --restart"
    )]
    NoRoomToRestart {
        /// The message's ID.
        id: String,
    },
    /// The messages were held for almost as long as SQS hides them, and the rest was released.
    #[error(
        "SQS hides received messages for {} minutes, and the time is almost over: the rest stays. Run the command again",
        DeadLetters::HOLD.as_secs() / 60
    )]
    HeldTooLong,
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
    /// The message group of a message waits for it, and its block can't be found.
    #[error(
        "the message group of {id} waits for it: give --table, or set SQS_ONCE_TABLE; if the message does not say its \
         source queue, redrive it, or unblock its group"
    )]
    Place {
        /// The message's id.
        id: String,
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

    /// Whether only this message can't be sent.
    pub(crate) fn is_of_message(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::NoRoomToRestart { .. })
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
                let unknown = "check the network, AWS_REGION and AWS_PROFILE";
                return match without_credentials(&error) {
                    Some(advice) => Self::queue(action, advice, root_cause(&error)),
                    None => Self::queue(action, unknown, error),
                };
            };
            let message = error.message().unwrap_or("no more is known");
            let advice = advice(code, message);
            Self::queue(action, advice, format!("{code}: {message}"))
        }
    }
}

/// The advice for an error code of SQS.
fn advice(code: &str, message: &str) -> &'static str {
    // SQS writes `KMS.AccessDeniedException` or `KmsAccessDenied`, or names KMS in the message alone.
    let of_kms = ["KMS.", "Kms"];
    let of_kms = of_kms.iter().find_map(|prefix| code.strip_prefix(prefix));
    match of_kms.unwrap_or(code) {
        "AccessDenied" | "AccessDeniedException"
            if of_kms.is_some() || message.to_lowercase().contains("kms") =>
        {
            "your credentials, and the policy of the KMS key that encrypts the queue, must permit kms:Decrypt, and \
             kms:GenerateDataKey to send"
        }
        "AccessDenied" | "AccessDeniedException" => "your credentials must permit it",
        "RequestThrottled" | "Throttled" | "ThrottlingException" => "wait a moment",
        _ if of_kms.is_some() => {
            "the KMS key that encrypts the queue is disabled, is to be deleted, or is gone: restore the key"
        }
        "AWS.SimpleQueueService.NonExistentQueue" | "QueueDoesNotExist" => {
            "check the queue's name, AWS_REGION and AWS_PROFILE"
        }
        "ExpiredToken" | "ExpiredTokenException" => {
            "sign in again, or set AWS_PROFILE to another profile"
        }
        "InvalidAccessKeyId" | "InvalidClientTokenId" | "UnrecognizedClientException" => {
            "AWS does not know the access key: sign in again, or set AWS_PROFILE to another profile"
        }
        "InvalidSignatureException" | "SignatureDoesNotMatch" => {
            "check AWS_SECRET_ACCESS_KEY, which must belong to AWS_ACCESS_KEY_ID, and this machine's clock"
        }
        "InvalidAction"
        | "UnknownOperationException"
        | "AWS.SimpleQueueService.UnsupportedOperation" => {
            "this endpoint does not offer it: check AWS_ENDPOINT_URL_SQS"
        }
        _ => "see the cause",
    }
}

/// The advice if credentials are missing, from the first cause that explains it.
fn without_credentials(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if error.is::<ImdsError>() {
        return Some(FORBIDDEN_METADATA);
    }
    // The cause of this one is the metadata service, if that is reachable.
    let own = match error.downcast_ref() {
        Some(CredentialsError::CredentialsNotLoaded(_)) => Some(SIGN_IN),
        _ => None,
    };
    error.source().and_then(without_credentials).or(own)
}

/// The last cause in one line. Of missing credentials, it lists all that was tried.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    match error.source() {
        Some(cause) => root_cause(cause),
        None => error
            .to_string()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// Words the error for a user with credentials, who may have no function.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        if let Some(advice) = without_credentials(&error) {
            return Self::Store(error.with_fix(advice));
        }
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
