//! What becomes of a record that failed for good.

use std::error::Error;

use futures_util::future::BoxFuture;

use crate::record::Message;

/// The dead-letter queue.
pub(crate) trait DeadLetters: Send + Sync {
    /// Sends a copy of the message there, with the reason; only after that may it leave its queue.
    fn send<'a>(
        &'a self,
        message: &'a Message,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>>;
}
