//! Why a run could not go on.

use sqs_once::aws_sdk_dynamodb::config::http::HttpResponse;
use sqs_once::aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use std::time::Duration;

/// The codes with which AWS refuses credentials that lack a permission.
const DENIED: [&str; 4] = [
    "AccessDenied",
    "AccessDeniedException",
    "UnauthorizedOperation",
    "AuthorizationError",
];

/// Why a run could not go on, and what to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyError {
    #[error(
        "AWS denies {action}: allow this action for your credentials, or choose others with --profile"
    )]
    Denied {
        action: String,
        #[source]
        said: Said,
    },
    #[error("AWS refuses {action}")]
    Refused {
        action: String,
        #[source]
        said: Said,
    },
    #[error("AWS does not answer {action}: check the network, the region and the credentials")]
    Unanswered {
        action: String,
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("AWS answers {action} without {what}")]
    Incomplete { action: String, what: &'static str },
    #[error("no credentials were found: configure them as for the AWS CLI")]
    NoCredentials(#[source] Option<Box<dyn Error + Send + Sync>>),
    #[error(
        "{region} is not in the partition `aws`, whose endpoints this command knows: choose another region"
    )]
    OtherPartition { region: String },
    #[error("{what}: not within {}", humantime::format_duration(*limit))]
    TimedOut { what: String, limit: Duration },
    #[error("interrupted")]
    Interrupted,
}

/// An answer of AWS that is an error.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
pub(super) struct Said {
    pub(super) code: String,
    pub(super) message: String,
}

impl VerifyError {
    /// The error for AWS's answer to an action such as `lambda:CreateFunction`.
    pub(super) fn said(action: &str, code: &str, message: &str) -> Self {
        let (action, code) = (action.to_owned(), code.to_owned());
        let is_denied = DENIED.contains(&&*code);
        let said = Said {
            code,
            message: message.to_owned(),
        };
        match is_denied {
            true => Self::Denied { action, said },
            false => Self::Refused { action, said },
        }
    }

    /// The error of a request that the SDK sent for an action such as `dynamodb:CreateTable`.
    pub(super) fn of_sdk<E>(action: &str, error: SdkError<E, HttpResponse>) -> Self
    where
        E: Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        match (error.code(), error.message()) {
            (Some(code), message) => Self::said(action, code, message.unwrap_or_default()),
            _ => Self::Unanswered {
                action: action.to_owned(),
                source: Box::new(error),
            },
        }
    }

    /// Whether AWS's answer has one of these codes.
    pub(super) fn has_code(&self, codes: &[&str]) -> bool {
        match self {
            Self::Refused { said, .. } => codes.contains(&&*said.code),
            _ => false,
        }
    }

    /// Whether AWS answered that the resource does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        self.has_code(&[
            "ResourceNotFoundException",
            "NoSuchEntity",
            "NoSuchEntityException",
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_named() {
        let error = VerifyError::said(
            "iam:CreateRole",
            "AccessDenied",
            "User: … is not authorized",
        );
        assert!(matches!(error, VerifyError::Denied { .. }));
        let text = error.to_string();
        assert!(
            text.starts_with("AWS denies iam:CreateRole: allow this action"),
            "{text}"
        );
    }

    #[test]
    fn a_resource_that_does_not_exist_is_told_from_other_refusals() {
        let said = |code| VerifyError::said("dynamodb:DescribeTable", code, "");
        assert!(said("ResourceNotFoundException").is_not_found());
        assert!(!said("ResourceInUseException").is_not_found());
        assert!(!said("AccessDenied").is_not_found());
    }
}
