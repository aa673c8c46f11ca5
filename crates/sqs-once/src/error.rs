//! The error that `main` returns, and the formatting of errors in one line.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// The reason why a function can't start or continue. `?` converts any error to it.
///
/// If `main` returns it, Rust prints it to standard error as one readable line with its causes.
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

/// `Error` does not implement `std::error::Error`, so that `?` can convert every error to it.
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

/// Formats like [`Display`](fmt::Display), because Rust prints the `Debug` form if `main` fails.
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
    /// Creates an error that reads `{variable} {problem}: expected {expected}`. `variable` names the environment
    /// variable or the setting.
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

    /// Adds the route of a router whose setting is wrong.
    pub(crate) fn of_route(mut self, name: &str) -> Self {
        self.problem = format!("of the route {name:?} {}", self.problem);
        self
    }

    /// Returns the environment variable, or the setting in code, that is wrong.
    pub fn variable(&self) -> &str {
        self.variable
    }
}

/// Chooses what happens to a message whose handler failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The message returns to the queue (the default). SQS delivers it again when its visibility timeout ends, which
    /// the consumer's backoff may set.
    #[default]
    Retry,
    /// The message returns to the queue, and SQS delivers it again after this time: see
    /// [`HandlerError::into_retry_after`](crate::HandlerError::into_retry_after).
    RetryAfter(Duration),
    /// No retry can help: the message is terminal.
    Terminal,
    /// The dependency with this name is unavailable: see
    /// [`HandlerError::into_unavailable`](crate::HandlerError::into_unavailable).
    Unavailable(Arc<str>),
}

/// The limit on the number of causes, because an error may return itself as its cause.
pub(crate) const MAX_CAUSES: usize = 32;

/// Formats an error and its causes in one line: `charge refused: connection reset`.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    // If formatting fails, the text so far is kept.
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
