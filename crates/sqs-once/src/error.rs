//! What `main` returns, and how errors read in one line.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::time::Duration;

/// Why a function can't start or go on: any error, through `?`.
///
/// When `main` returns it, Rust prints it on standard error as one readable line with its causes.
///
/// ```
/// use sqs_once::Error;
///
/// fn settings() -> Result<u16, Error> {
///     Ok("80a".parse()?)
/// }
///
/// assert_eq!(format!("{:?}", settings().unwrap_err()), "invalid digit found in string");
/// ```
pub struct Error(Box<dyn StdError + Send + Sync>);

/// `Error` is no `std::error::Error` itself, so that `?` can turn every error into one.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(&*self.0))
    }
}

/// As [`Display`](fmt::Display), because this is what Rust prints when `main` fails.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A setting is missing or malformed. The function refuses to start, because a guess could charge a customer twice.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{variable} {problem}: expected {expected}")]
pub struct ConfigError {
    variable: &'static str,
    problem: String,
    expected: Cow<'static, str>,
}

impl ConfigError {
    /// An error that reads `{variable} {problem}: expected {expected}`. `variable` names the environment variable or the
    /// setting.
    pub fn new(
        variable: &'static str,
        problem: impl Into<String>,
        expected: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            variable,
            problem: problem.into(),
            expected: expected.into(),
        }
    }

    /// The environment variable or the setting in code that is wrong.
    pub fn variable(&self) -> &str {
        self.variable
    }
}

/// What happens to a message whose handler failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// It returns to the queue (the default). SQS delivers it again when its visibility timeout ends, which the consumer's
    /// backoff may set.
    #[default]
    Retry,
    /// The same, to be tried again when this time is over: see
    /// [`HandlerError::into_retry_after`](crate::HandlerError::into_retry_after).
    RetryAfter(Duration),
    /// No retry can help: the record is terminal.
    Terminal,
}

/// An error may name itself as its cause.
const MAX_CAUSES: usize = 32;

/// An error and its causes in one line: `charge refused: connection reset`.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    // Of an error that can't be shown, what it said so far.
    let shown = |error: &dyn StdError| {
        let mut text = String::new();
        let _ = write!(text, "{error}");
        text
    };
    let mut text = shown(error);
    let mut cause = error.source();
    for _ in 0..MAX_CAUSES {
        let Some(error) = cause else { break };
        let error_text = shown(error);
        // Many errors repeat their cause in their own text.
        if !text.ends_with(&error_text) {
            text.push_str(": ");
            text.push_str(&error_text);
        }
        cause = error.source();
    }
    text
}
