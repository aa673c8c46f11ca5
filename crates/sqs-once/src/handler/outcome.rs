//! What a handler may return.

use super::HandlerError;

/// What a handler returns: nothing, which means success, or a `Result` of that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something a handler can return",
    label = "not a handler's outcome",
    note = "return `Result<(), HandlerError>`, or `()` for a handler that can't fail"
)]
pub trait IntoOutcome {
    /// Success, or the error with what it means for the message.
    ///
    /// # Errors
    /// The handler's own error.
    fn into_outcome(self) -> Result<(), HandlerError>;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<(), HandlerError> {
        Ok(())
    }
}

impl<E: Into<HandlerError>> IntoOutcome for Result<(), E> {
    fn into_outcome(self) -> Result<(), HandlerError> {
        self.map_err(Into::into)
    }
}
