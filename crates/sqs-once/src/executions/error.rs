//! Why an execution was not started, or does not count as one.

use std::error::Error;

// The types of both crates are the same.
#[cfg(not(feature = "step-functions"))]
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
#[cfg(feature = "step-functions")]
use aws_sdk_sfn::error::{ProvideErrorMetadata, SdkError};

use crate::aws::access_hint;
use crate::error::chain;

type BoxError = Box<dyn Error + Send + Sync>;

/// The reason why no execution was started for a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The execution with the message's name has ended, and not with a success. No retry starts another one.
    #[error(
        "the execution {name} ended {status}: `cargo sqs-once dlq redrive --restart` starts another one"
    )]
    Ended {
        /// The name of the execution.
        name: String,
        /// AWS's word for its end, such as `FAILED`.
        status: String,
    },
    /// The execution with the message's name has another input.
    #[error("the execution {name} has another input")]
    OtherInput {
        /// The name of the execution.
        name: String,
    },
    /// The input can't be serialized.
    #[error("the input of the execution is not JSON")]
    Input(#[source] serde_json::Error),
    /// AWS refused the request, or did not answer.
    #[error("{service} {answer}")]
    Refused {
        /// The service that was asked.
        service: &'static str,
        /// What it answered, and what to do.
        answer: String,
        /// Whether the same request would be refused again.
        is_final: bool,
        /// The error of the SDK.
        #[source]
        source: BoxError,
    },
    /// The start was not what a handler of single messages returned, so that nothing starts it.
    #[error(
        "an execution is started by returning it from a handler of single messages, and not in a batch or a layer"
    )]
    NotReturned,
}

/// The codes of refusals that a repetition does not change: the input is too large, or not what the service accepts.
const FINAL: [&str; 5] = [
    "InvalidExecutionInput",
    "InvalidParameterValueException",
    "InvalidRequestContentException",
    "RequestTooLargeException",
    "ValidationException",
];

impl ExecutionError {
    pub(super) fn refused<E>(service: &'static str, error: SdkError<E>, action: &str) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let code = error.code().unwrap_or("an error without a code");
        let hint = access_hint(code, error.message().unwrap_or_default());
        let answer = match (error.as_service_error(), hint) {
            (None, _) => format!("did not answer: {}", chain(&error)),
            (Some(_), Some(hint)) => format!("answered {code}: {hint}"),
            (Some(_), None) if code.contains("AccessDenied") => {
                format!("answered {code}: the function's role must allow {action}")
            }
            (Some(_), None) => format!("answered {code}"),
        };
        Self::Refused {
            service,
            answer,
            is_final: error.as_service_error().is_some() && FINAL.contains(&code),
            source: error.into(),
        }
    }
}
