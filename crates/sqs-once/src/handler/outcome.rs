//! The types that a handler may return.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use futures_util::future::Either;
use serde::Serialize;

use crate::store::{Writes, recordable};

use super::layer::Call;
use super::{HandlerError, RecordParts};

/// A success with a value, which is stored with the completion of the key. The hook [`on_done`](crate::Handler::on_done)
/// receives it, also for later duplicates.
///
/// The value is stored as JSON in the item's attribute `data`, 256 KiB at most. A value that is larger or can't be
/// serialized is left out, because the effect is done: the message is processed, with a warning in its log line.
/// DynamoDB charges a write unit for every KiB of the item.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use sqs_once::{HandlerError, Completion};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// #[derive(Serialize)]
/// struct Receipt { number: String }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced) -> Result<Completion<Receipt>, HandlerError> {
///     let number = format!("receipt-{}", order.order_id);
///     Ok(Completion(Receipt { number }))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<T>(pub T);

/// A handler's success, with its value and its writes. It belongs to the handler's message: a layer that returns it for
/// another message fails that one.
#[derive(Default)]
#[must_use = "it contains what the handler returned to be stored or written"]
pub struct Done {
    pub(crate) data: Option<Arc<str>>,
    /// The writes that commit with the completion.
    pub(crate) writes: Option<Arc<Writes>>,
    pub(crate) left_out: Option<String>,
    /// The call inside layers that returned it.
    pub(super) call: Option<Call>,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done")
            .field("has_data", &self.data.is_some())
            .field("writes", &self.writes)
            .field("left_out", &self.left_out)
            .finish()
    }
}

impl Done {
    /// Creates a success with its result, or without one that can't be stored: the effect must not be repeated for it.
    pub(crate) fn recording<T: Serialize>(result: &T) -> Self {
        Self::keeping(recordable(result))
    }

    fn keeping(result: Result<Arc<str>, String>) -> Self {
        let (data, left_out) = match result {
            Ok(data) => (Some(data), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            data,
            left_out,
            ..Self::default()
        }
    }
}

/// The return type of a handler: `()` for success, a [`Completion`] with a value, [`Writes`] that commit with the
/// completion, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something a handler can return",
    label = "not a handler's outcome",
    note = "return `Result<(), HandlerError>`, or `()` for a handler that can't fail",
    note = "`?` makes a `HandlerError` of every error; `sqs_once::Error` is for `main`",
    note = "a value for `on_done` is wrapped: `Result<Completion<Receipt>, HandlerError>`",
    note = "writes to DynamoDB that commit with the completion of the key: `Result<Writes, HandlerError>`"
)]
pub trait IntoOutcome {
    /// Whether the type contains [`Writes`]. Default: no.
    #[doc(hidden)]
    const WRITES: bool = false;

    /// Whether the type contains the start of an execution. Default: no.
    #[doc(hidden)]
    const STARTS: bool = false;

    /// Returns the success, or the error, which decides what happens to the message.
    ///
    /// # Errors
    /// The handler's own error.
    fn into_outcome(self) -> Result<Done, HandlerError>
    where
        Self: Sized;

    /// Ends the handler's work: the same, after what the type still has to do for the message.
    #[doc(hidden)]
    fn end<S: Sync>(
        self,
        _: &RecordParts<S>,
    ) -> impl Future<Output = Result<Done, HandlerError>> + Send
    where
        Self: Sized,
    {
        ready(self.into_outcome())
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Done, HandlerError> {
        Ok(Done::default())
    }
}

impl<T: Serialize> IntoOutcome for Completion<T> {
    fn into_outcome(self) -> Result<Done, HandlerError> {
        Ok(Done::recording(&self.0))
    }
}

impl IntoOutcome for Writes {
    const WRITES: bool = true;

    fn into_outcome(self) -> Result<Done, HandlerError> {
        self.check_all().map_err(HandlerError::terminal)?;
        let done = self.result().cloned().map(Done::keeping);
        Ok(Done {
            writes: Some(Arc::new(self)),
            ..done.unwrap_or_default()
        })
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoOutcome, E: Into<HandlerError>> IntoOutcome for Result<T, E> {
    const WRITES: bool = T::WRITES;
    const STARTS: bool = T::STARTS;

    fn into_outcome(self) -> Result<Done, HandlerError> {
        self.map_err(Into::into)?.into_outcome()
    }

    fn end<S: Sync>(
        self,
        parts: &RecordParts<S>,
    ) -> impl Future<Output = Result<Done, HandlerError>> + Send {
        match self {
            Ok(success) => Either::Left(success.end(parts)),
            Err(error) => Either::Right(ready(Err(error.into()))),
        }
    }
}
