//! The types that work may return.

use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "dynamodb")]
use crate::handler::IntoOutcome;
use crate::handler::{Done, HandlerError};
#[cfg(feature = "dynamodb")]
use crate::store::Writes;

/// The success of work: a value, [`Writes`](crate::Writes) that commit with the completion of the key, or both as
/// `(Writes, value)`.
///
/// `T` is the value that [`Invocation::run`](crate::once::Invocation::run) returns, and that the completion keeps for
/// duplicates. It is `()` for `Writes` alone.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not something that work can return",
    label = "not a value that a completion can hold",
    note = "work returns `Result<T, E>`, where `T` implements serde's `Serialize` and `Deserialize`: the completion keeps it for duplicates",
    note = "writes to DynamoDB that commit with the completion of the key: `Result<Writes, E>`, or `Result<(Writes, T), E>`",
    note = "`run_in_transaction` takes no writes to DynamoDB: they don't commit with another store's transaction"
)]
pub trait WorkOutcome<T> {
    /// Whether the type contains `Writes`.
    #[doc(hidden)]
    const WRITES: bool = false;

    /// Returns the value, and what completes the key: its JSON and the writes.
    ///
    /// # Errors
    /// The writes break a limit.
    #[doc(hidden)]
    fn into_done(self) -> Result<(Done, T), HandlerError>;

    /// Reads the value of a completion.
    ///
    /// # Errors
    /// The value is not of this type.
    #[doc(hidden)]
    fn from_completion(data: &str) -> serde_json::Result<T>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> WorkOutcome<T> for T {
    fn into_done(self) -> Result<(Done, T), HandlerError> {
        Ok((Done::recording(&self), self))
    }

    fn from_completion(data: &str) -> serde_json::Result<T> {
        serde_json::from_str(data)
    }
}

#[cfg(feature = "dynamodb")]
impl WorkOutcome<()> for Writes {
    const WRITES: bool = true;

    fn into_done(self) -> Result<(Done, ()), HandlerError> {
        let writes = match self.result() {
            Some(_) => self,
            None => self.completion(&()),
        };
        Ok((writes.into_outcome()?, ()))
    }

    /// The completion may have a value of [`Writes::completion`], which other readers of the key get.
    fn from_completion(_: &str) -> serde_json::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "dynamodb")]
impl<T: Serialize + DeserializeOwned> WorkOutcome<T> for (Writes, T) {
    const WRITES: bool = true;

    fn into_done(self) -> Result<(Done, T), HandlerError> {
        let (writes, value) = self;
        Ok((writes.completion(&value).into_outcome()?, value))
    }

    fn from_completion(data: &str) -> serde_json::Result<T> {
        serde_json::from_str(data)
    }
}
