//! What a handler may return.

use std::sync::Arc;

use serde::Serialize;

use crate::guarded::caught;
use crate::store::Writes;

use super::HandlerError;

/// A success whose result is recorded with the completion, for the duplicates that come later: the
/// hooks [`on_success`](crate::Consumer::on_success) and
/// [`on_duplicate`](crate::Consumer::on_duplicate) get it.
///
/// It is kept as JSON in the item's attribute `data`, 256 KiB at most. What is larger, or can't be
/// serialized, is left out, because the effect is done: the record is processed, with a warning in its
/// line of the log. DynamoDB counts a write unit for every KiB of the item.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use sqs_once::{HandlerError, Recorded};
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String }
///
/// #[derive(Serialize)]
/// struct Receipt { number: String }
///
/// #[sqs_once::handler(key = order.order_id)]
/// async fn charge(order: OrderPlaced) -> Result<Recorded<Receipt>, HandlerError> {
///     let number = format!("receipt-{}", order.order_id);
///     Ok(Recorded(Receipt { number }))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded<T>(pub T);

/// The most bytes of JSON that are recorded for a key.
const MAX_DATA: usize = 256 * 1024;

/// A handler's success, with what is to be recorded of it.
#[derive(Clone, Debug, Default)]
pub struct Done {
    pub(crate) data: Option<Arc<str>>,
    /// What is to be written together with the record of its key.
    pub(crate) writes: Option<Arc<Writes>>,
    /// Why there is no data though there should be.
    pub(crate) left_out: Option<String>,
}

impl Done {
    /// A success with its result, unless that can't be kept.
    pub(crate) fn recording<T: Serialize>(result: &T) -> Self {
        // What serde or a panic says may quote the value, which is not for logs. Either comes after the
        // effect, which must not happen again for it.
        let json = caught(|| serde_json::to_string(result).ok())
            .ok()
            .flatten()
            .ok_or_else(|| "it can't be written as JSON".to_owned())
            .and_then(|json| match json.len() {
                0..=MAX_DATA => Ok(json),
                len => Err(format!("it has {len} bytes, at most {MAX_DATA} are kept")),
            });
        match json {
            Ok(json) => Self {
                data: Some(json.into()),
                ..Self::default()
            },
            Err(why) => Self {
                left_out: Some(format!("its result was not recorded: {why}")),
                ..Self::default()
            },
        }
    }
}

/// What a handler returns: nothing, which means success, a [`Recorded`] result, [`Writes`] that commit with
/// the record of its key, or a `Result` of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something a handler can return",
    label = "not a handler's outcome",
    note = "return `Result<(), HandlerError>`, or `()` for a handler that can't fail",
    note = "`?` makes a `HandlerError` of every error; `sqs_once::Error` is for `main`",
    note = "a value to be recorded is wrapped: `Result<Recorded<Receipt>, HandlerError>`"
)]
pub trait IntoOutcome {
    /// Whether it brings [`Writes`]. Default: no.
    #[doc(hidden)]
    const WRITES: bool = false;

    /// Success, or the error with what it means for the message.
    ///
    /// # Errors
    /// The handler's own error.
    fn into_outcome(self) -> Result<Done, HandlerError>;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Done, HandlerError> {
        Ok(Done::default())
    }
}

impl<T: Serialize> IntoOutcome for Recorded<T> {
    fn into_outcome(self) -> Result<Done, HandlerError> {
        Ok(Done::recording(&self.0))
    }
}

impl IntoOutcome for Writes {
    const WRITES: bool = true;

    fn into_outcome(self) -> Result<Done, HandlerError> {
        Ok(Done {
            writes: Some(Arc::new(self)),
            ..Done::default()
        })
    }
}

#[diagnostic::do_not_recommend]
impl<T: IntoOutcome, E: Into<HandlerError>> IntoOutcome for Result<T, E> {
    const WRITES: bool = T::WRITES;

    fn into_outcome(self) -> Result<Done, HandlerError> {
        self.map_err(Into::into)?.into_outcome()
    }
}
