//! What becomes of a record that failed for good.

#[cfg(feature = "sqs")]
mod sqs;

use std::error::Error;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::config::ConfigError;
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

/// The dead-letter queue at `url`.
#[cfg(feature = "sqs")]
pub(crate) async fn dead_letters(url: String) -> Result<Arc<dyn DeadLetters>, ConfigError> {
    Ok(Arc::new(sqs::DeadLetterQueue::from_env(url).await))
}

/// Without SQS's client nothing can be sent there: a variable that does nothing would be a trap.
#[cfg(not(feature = "sqs"))]
pub(crate) async fn dead_letters(_: String) -> Result<Arc<dyn DeadLetters>, ConfigError> {
    Err(crate::config::dlq_without_feature())
}
