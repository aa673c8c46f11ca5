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
        "the execution {name} ended {status}: redrive it, and then this message; \
         `cargo sqs-once dlq redrive --restart` starts another one, which repeats its steps"
    )]
    Ended {
        /// The name of the execution.
        name: String,
        /// AWS's word for its end, such as `FAILED`.
        status: String,
    },
    /// The state machine is of the type *Express*, which starts an execution at each attempt. It has started this one.
    #[error(
        "the state machine is of the type Express, which starts an execution at each attempt: take one of the type \
         Standard, and redrive this message, unless the execution {arn} has done its work"
    )]
    Express {
        /// The ARN of the execution.
        arn: String,
    },
    /// The execution exists, and AWS does not tell yet whether it has ended well.
    #[error("{service} does not tell yet how the execution {name} ended")]
    Unsettled {
        /// The service that was asked.
        service: &'static str,
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
        "an execution is started by returning it from a handler of single messages, and not in a batch, a layer or a type \
         of your own"
    )]
    NotReturned,
}

/// The codes of refusals of an input that a repetition does not change.
const FINAL: [&str; 4] = [
    "InvalidExecutionInput",
    "InvalidRequestContentException",
    "RequestTooLargeException",
    "SerializedRequestEntityTooLargeException",
];

/// The largest input that Step Functions accepts, in bytes. It has no code of its own for a larger one.
const LARGEST_INPUT: usize = 262_144;

impl ExecutionError {
    /// Creates the error of a request. The input is that of a start, for which alone a refusal can be final.
    pub(super) fn refused<E>(
        service: &'static str,
        error: SdkError<E>,
        action: &str,
        input: Option<&str>,
    ) -> Self
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let code = error.code().unwrap_or("an error without a code");
        let hint = access_hint(code, error.message().unwrap_or_default());
        let answer = match (error.as_service_error(), hint) {
            (None, _) => format!("did not answer: {}", chain(&error)),
            (Some(_), Some(hint)) => format!("answered {code}: {hint}"),
            (Some(_), None) if ["AccessDenied", "AccessDeniedException"].contains(&code) => {
                format!("answered {code}: the function's role must allow {action}")
            }
            (Some(_), None) => format!("answered {code}"),
        };
        Self::Refused {
            service,
            answer,
            is_final: input.is_some_and(|input| {
                let is_too_large = input.len() > LARGEST_INPUT && code == "ValidationException";
                FINAL.contains(&code) || is_too_large
            }),
            source: error.into(),
        }
    }
}
