//! The errors that handlers return.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "sqs")]
use std::time::Duration;

use crate::error::{Disposition, MAX_CAUSES, chain};

use super::error_types::{ErrorTypes, is_outcome_unknown};

type BoxError = Box<dyn StdError + Send + Sync>;

/// A handler's error. It decides what happens to the message.
///
/// `?` converts every error to a `HandlerError` that means *retry*: the message returns to the queue.
/// [`ResultExt::terminal`] makes it terminal. Text works too: `Err("no such card")?`. An error type of your own can choose
/// for itself: see [`ErrorDisposition`](trait@crate::handler::ErrorDisposition).
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
    /// `None` if nothing in the code chose: its type, or a dependency that recognises it, may choose.
    chosen: Option<Disposition>,
    answered_by: Option<Arc<str>>,
    outcome_is_unknown: bool,
    source: BoxError,
}

impl HandlerError {
    /// Creates an error with this disposition.
    pub fn new(disposition: Disposition, error: impl Into<BoxError>) -> Self {
        Self {
            chosen: Some(disposition),
            ..Self::undecided(error.into())
        }
    }

    fn undecided(source: BoxError) -> Self {
        Self {
            chosen: None,
            answered_by: None,
            outcome_is_unknown: false,
            source,
        }
    }

    /// Creates a retryable error: the message returns to the queue. Neither the error's type nor a dependency that recognises
    /// it changes that. SQS delivers the message again when its visibility timeout ends, which the handler's backoff may set.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self::new(Disposition::Retry, error)
    }

    /// No retry can help: the message is terminal.
    pub fn terminal(error: impl Into<BoxError>) -> Self {
        Self::new(Disposition::Terminal, error)
    }

    /// Makes the error terminal.
    #[must_use]
    pub fn into_terminal(self) -> Self {
        self.choosing(Disposition::Terminal)
    }

    /// Makes the error retryable after `delay` from now.
    ///
    /// The consumer sets the message's visibility timeout, in whole seconds up to 12 hours. If SQS refuses, the message
    /// returns when the queue's visibility timeout ends.
    #[cfg(feature = "sqs")]
    #[must_use]
    pub fn into_retry_after(self, delay: Duration) -> Self {
        self.choosing(Disposition::RetryAfter(delay))
    }

    /// Reports an outage of a dependency instead of a fault of this message. The name is one that the handler
    /// [depends on](crate::Handler::depends_on); with another name the error is an ordinary retryable one.
    ///
    /// The message returns to the queue. The consumer chooses the time so that the message's remaining deliveries outlast
    /// the outage. After several such errors in a row, the consumer stops calling the handler until the dependency is
    /// available again.
    #[must_use]
    pub fn into_unavailable(mut self, dependency: &str) -> Self {
        self.answered_by = None;
        self.choosing(Disposition::Unavailable(dependency.into()))
    }

    /// Reports that a dependency works: the error is its own answer, such as a declined card. For its breaker this counts
    /// as a success, and closes it if it probes. The error itself stays as it is, unless it reported an outage. The name is
    /// as for [`into_unavailable`](Self::into_unavailable).
    #[must_use]
    pub fn into_answered(mut self, dependency: &str) -> Self {
        if let Some(Disposition::Unavailable(_)) = self.chosen {
            self.chosen = Some(Disposition::Retry);
        }
        self.answered_by = Some(dependency.into());
        self
    }

    /// Reports that the effect may have happened: the service got the request, and its answer is lost. The handler's
    /// [`unknown_outcome`](crate::Handler::unknown_outcome) decides whether it may run again. The error itself
    /// stays as it is.
    #[must_use]
    pub fn into_outcome_unknown(mut self) -> Self {
        self.outcome_is_unknown = true;
        self
    }

    fn choosing(mut self, disposition: Disposition) -> Self {
        self.chosen = Some(disposition);
        self
    }

    /// Lets the type of an error choose what nothing in the code chose. An error of unknown outcome stays one, and so does one
    /// with such a cause: a choice about the message does not tell what became of the effect.
    pub(crate) fn decided_by(mut self, types: &ErrorTypes) -> Self {
        let is_unknown = self.causes().any(is_outcome_unknown);
        self.outcome_is_unknown |= is_unknown;
        if self.chosen.is_none() {
            self.chosen = match (types.disposition(&*self.source), &self.answered_by) {
                // A service that answers is available, as in `into_answered`.
                (Some(Disposition::Unavailable(_)), Some(_)) => Some(Disposition::Retry),
                (chosen, _) => chosen,
            };
        }
        self
    }

    pub(crate) fn is_decided(&self) -> bool {
        self.chosen.is_some()
    }

    /// Returns how to declare the error's type, if that was forgotten.
    pub(crate) fn undeclared(&self, types: &ErrorTypes) -> Option<String> {
        match self.is_decided() {
            true => None,
            false => types.undeclared(&*self.source),
        }
    }

    /// Returns what happens to the message.
    ///
    /// For an error from [`Next::run`](crate::handler::Next::run), the answer includes what the error's type and the
    /// handler's dependencies chose. An error that `?` has just converted means *retry* until it leaves the function.
    pub fn disposition(&self) -> Disposition {
        self.chosen.clone().unwrap_or_default()
    }

    /// Returns the dependency of which the error is an answer, if any.
    pub(crate) fn answered_by(&self) -> Option<&Arc<str>> {
        self.answered_by.as_ref()
    }

    /// Returns the error and its causes.
    pub(crate) fn causes(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let first: &(dyn StdError + 'static) = &*self.source;
        std::iter::successors(Some(first), |&error| error.source()).take(MAX_CAUSES)
    }

    /// Returns whether the error is terminal.
    pub fn is_terminal(&self) -> bool {
        self.disposition() == Disposition::Terminal
    }

    /// Returns whether the effect may have happened.
    pub fn is_outcome_unknown(&self) -> bool {
        self.outcome_is_unknown
    }

    /// Returns the error itself, to look at its type: `error.get_ref().downcast_ref::<PayError>()`.
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }

    pub(crate) fn into_source(self) -> BoxError {
        self.source
    }

    /// Returns the error and its causes in one line: `charge refused: connection reset`.
    pub fn chain(&self) -> String {
        chain(&*self.source)
    }
}

/// `?` converts every error that can become a `Box<dyn Error + Send + Sync>`. For that, `HandlerError` does not implement
/// `std::error::Error`.
impl<E: IntoBoxError> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::undecided(error.into())
    }
}

/// A name of this crate for `Into<BoxError>`, which lets the compiler give advice.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't become a `HandlerError`",
    label = "no `Error + Send + Sync`: write `Box<dyn Error + Send + Sync>`, or derive `thiserror::Error`"
)]
pub trait IntoBoxError: Into<BoxError> {}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError>> IntoBoxError for E {}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError")
            .field("disposition", &self.disposition())
            .field("source", &self.source)
            .finish()
    }
}

/// Chooses what happens to a failed message, before the error passes through `?`.
pub trait ResultExt<T> {
    /// No retry can help: the message is terminal.
    ///
    /// # Errors
    /// The same error, as terminal.
    fn terminal(self) -> Result<T, HandlerError>;

    /// Retries after `delay` from now: see [`HandlerError::into_retry_after`].
    ///
    /// # Errors
    /// The same error, with the delay.
    #[cfg(feature = "sqs")]
    fn retry_after(self, delay: Duration) -> Result<T, HandlerError>;

    /// Reports an outage of a dependency: see [`HandlerError::into_unavailable`].
    ///
    /// # Errors
    /// The same error, with the dependency.
    fn unavailable(self, dependency: &str) -> Result<T, HandlerError>;

    /// Reports that a dependency works, and that the error is its answer: see [`HandlerError::into_answered`].
    ///
    /// # Errors
    /// The same error, with the dependency.
    fn answered(self, dependency: &str) -> Result<T, HandlerError>;

    /// Reports that the effect may have happened: see [`HandlerError::into_outcome_unknown`].
    ///
    /// # Errors
    /// The same error, of unknown outcome.
    fn outcome_unknown(self) -> Result<T, HandlerError>;
}

impl<T, E: Into<HandlerError>> ResultExt<T> for Result<T, E> {
    fn terminal(self) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_terminal())
    }

    #[cfg(feature = "sqs")]
    fn retry_after(self, delay: Duration) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_retry_after(delay))
    }

    fn unavailable(self, dependency: &str) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_unavailable(dependency))
    }

    fn answered(self, dependency: &str) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_answered(dependency))
    }

    fn outcome_unknown(self) -> Result<T, HandlerError> {
        self.map_err(|error| error.into().into_outcome_unknown())
    }
}
