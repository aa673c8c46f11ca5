//! The errors of an invocation.

use serde::Deserialize;
use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

/// An invocation failed or got no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The function never asked for the event.
    #[error(
        "the function did not ask for an event within {after:?}: does it call the Lambda runtime?"
    )]
    NotTaken {
        /// How long the event waited.
        after: Duration,
    },
    /// The function took the event and did not answer in time.
    #[error("the function timed out: no answer within {after:?}")]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The function answered with an error.
    #[error("the function answered with an error: {0}")]
    Function(FunctionError),
    /// The function reported that it could not initialise.
    #[error("the function failed to initialise: {0}")]
    Init(FunctionError),
    /// The function's answer is larger than Lambda accepts.
    #[error("the function's answer is larger than {limit} bytes, the most that Lambda accepts")]
    AnswerTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The function's process ended before it answered.
    #[error("the function ended before it answered: {status}")]
    Exited {
        /// The exit status, or the signal that killed the process.
        status: ExitStatus,
        /// The last lines it wrote to its standard error, oldest first.
        last_lines: Vec<String>,
    },
}

/// An error as a function reports it to Lambda.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionError {
    /// The kind of error, such as `Runtime.ExitError`.
    #[serde(default)]
    pub error_type: String,
    /// What happened.
    pub error_message: String,
}

impl FunctionError {
    /// Parses an error report. Keeps a report in another format as the message.
    pub(super) fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_else(|_| Self {
            error_type: String::new(),
            error_message: String::from_utf8_lossy(body).into_owned(),
        })
    }
}

impl fmt::Display for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.error_type.is_empty() {
            write!(f, "{}: ", self.error_type)?;
        }
        f.write_str(&self.error_message)
    }
}
