//! What a handler says of a failure.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::{Disposition, chain};

type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a handler failed, and what that means for its message.
///
/// Every error becomes one through `?` and then means *retry*: the message goes back to the queue.
/// [`ResultExt::terminal`] says that no retry can help. Text works too: `Err("no such card")?`.
///
/// ```
/// use sqs_once::{HandlerError, ResultExt};
///
/// fn amount(text: &str) -> Result<u64, HandlerError> {
///     let amount = text.parse().terminal()?; // will never parse: no retry
///     Ok(amount)
/// }
///
/// assert!(amount("12 EUR").unwrap_err().is_terminal());
/// ```
pub struct HandlerError {
    disposition: Disposition,
    source: BoxError,
}

impl HandlerError {
    /// An error that means this for the message.
    pub fn new(disposition: Disposition, error: impl Into<BoxError>) -> Self {
        Self {
            disposition,
            source: error.into(),
        }
    }

    /// The message goes back to the queue, and is tried again when its visibility timeout ends, which the
    /// consumer's backoff may set.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::new(Disposition::Retry, error)
    }

    /// No retry can help: the record is terminal.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::new(Disposition::Terminal, error)
    }

    /// The same error, as terminal.
    #[must_use]
    pub fn into_terminal(mut self) -> Self {
        self.disposition = Disposition::Terminal;
        self
    }

    /// The same error, to be tried again when `delay` from now is over.
    ///
    /// SQS is told with the feature `sqs`, in whole seconds and at most 12 hours. Without it, or where SQS
    /// refuses, the message comes back when the queue's visibility timeout ends.
    #[must_use]
    pub fn into_retry_after(mut self, delay: Duration) -> Self {
        self.disposition = Disposition::RetryAfter(delay);
        self
    }

    /// Whether no retry can help.
    pub fn is_terminal(&self) -> bool {
        self.disposition == Disposition::Terminal
    }

    /// How long a retry should wait, where the handler said so.
    pub fn retry_delay(&self) -> Option<Duration> {
        match self.disposition {
            Disposition::RetryAfter(delay) => Some(delay),
            Disposition::Retry | Disposition::Terminal => None,
        }
    }

    /// The error itself, without what it means for a message.
    pub(crate) fn into_source(self) -> BoxError {
        self.source
    }

    /// The error and its causes in one line: `charge refused: connection reset`.
    pub fn chain(&self) -> String {
        chain(&*self.source)
    }
}

/// `HandlerError` is no `std::error::Error` itself, so that `?` can turn every error into one.
impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("disposition", &self.disposition)
            .field("source", &self.source)
            .finish()
    }
}

/// Says of an error, on its way through `?`, what becomes of the message.
pub trait ResultExt<T> {
    /// No retry can help: the record is terminal.
    ///
    /// # Errors
    /// The error, as terminal.
    fn terminal(self) -> Result<T, HandlerError>;

    /// Try again when `delay` from now is over: see [`HandlerError::into_retry_after`].
    ///
    /// # Errors
    /// The error, with the delay.
    fn retry_after(self, delay: Duration) -> Result<T, HandlerError>;
}

impl<T, E: Into<HandlerError>> ResultExt<T> for Result<T, E> {
    fn terminal(self) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_terminal())
    }

    fn retry_after(self, delay: Duration) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_retry_after(delay))
    }
}
