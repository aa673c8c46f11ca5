//! What becomes of a record that did not succeed.

#[cfg(feature = "sqs")]
mod attributes;
#[cfg(feature = "sqs")]
mod dead_letters;
mod settings;
#[cfg(feature = "sqs")]
mod sqs;

use std::error::Error;

use futures_util::future::BoxFuture;

use crate::handler::HandlerError;
use crate::record::Message;

pub(crate) use settings::{Disposition, DispositionSettings};

/// Why a record is terminal.
pub(crate) struct Cause {
    /// The error's own words.
    pub(crate) reason: String,
    /// The error and its causes, in one line.
    pub(crate) chain: String,
}

impl From<&HandlerError> for Cause {
    fn from(error: &HandlerError) -> Self {
        Self {
            reason: error.to_string(),
            chain: error.chain(),
        }
    }
}

/// A reason that has no causes.
impl From<String> for Cause {
    fn from(reason: String) -> Self {
        Self {
            chain: reason.clone(),
            reason,
        }
    }
}

/// The dead-letter queue.
pub(crate) trait DeadLetters: Send + Sync {
    /// Sends a copy of the message there, with the cause; only after that may it leave its queue.
    fn send<'a>(
        &'a self,
        message: &'a Message,
        cause: &'a Cause,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>>;
}
