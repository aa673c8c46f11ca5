//! The error that `main` returns, and the formatting of errors in one line.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::sync::Arc;
#[cfg(feature = "sqs")]
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

/// A setting is missing, or can't be used. The function refuses to start, because a guess could charge a customer twice.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{setting} {problem}: expected {expected}")]
pub struct ConfigError {
    kind: ConfigErrorKind,
    setting: Cow<'static, str>,
    problem: String,
    expected: Cow<'static, str>,
}

/// The kind of a [`ConfigError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// It is required, and not set.
    Missing,
    /// Its value can't be used, whatever the other settings are.
    Invalid,
    /// It contradicts another setting, or the type of the handler.
    Conflicting,
    /// It needs what this build or the store does not have.
    Unsupported,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident $kind:ident)*) => {$(
        $(#[doc = $doc])*
        ///
        /// The error reads `{setting} {problem}: expected {expected}`. `setting` is an environment variable, or a setting
        /// in code.
        pub fn $name(
            setting: impl Into<Cow<'static, str>>,
            problem: impl Into<String>,
            expected: impl Into<Cow<'static, str>>,
        ) -> Self {
            Self {
                kind: ConfigErrorKind::$kind,
                setting: setting.into(),
                problem: problem.into(),
                expected: expected.into(),
            }
        }
    )*};
}

impl ConfigError {
    kinds! {
        /// Creates the error of a required setting that is not set.
        missing Missing
        /// Creates the error of a value that can't be used.
        invalid Invalid
        /// Creates the error of a setting that contradicts another one.
        conflicting Conflicting
        /// Creates the error of a setting that needs what this build or the store does not have.
        unsupported Unsupported
    }

    /// Adds the route of a router whose setting is wrong.
    pub(crate) fn of_route(mut self, name: &str) -> Self {
        self.problem = format!("of the route {name:?} {}", self.problem);
        self
    }

    /// Returns what is wrong with the setting.
    pub fn kind(&self) -> ConfigErrorKind {
        self.kind
    }

    /// Returns the environment variable, or the setting in code, that is wrong.
    pub fn setting(&self) -> &str {
        &self.setting
    }
}

/// Chooses what happens to a message whose handler failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The message returns to the queue (the default). SQS delivers it again when its visibility timeout ends, which
    /// the handler's backoff may set.
    #[default]
    Retry,
    /// The message returns to the queue, and SQS delivers it again after this time: see
    /// [`HandlerError::into_retry_after`](crate::HandlerError::into_retry_after).
    #[cfg(feature = "sqs")]
    RetryAfter(Duration),
    /// No retry can help: the message is terminal.
    Terminal,
    /// The dependency with this name is unavailable: see
    /// [`HandlerError::into_unavailable`](crate::HandlerError::into_unavailable).
    Unavailable(Arc<str>),
}

/// Returns the choice of a derived error type.
#[cfg(feature = "sqs")]
pub fn retry_after(millis: u64) -> Disposition {
    Disposition::RetryAfter(Duration::from_millis(millis))
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
