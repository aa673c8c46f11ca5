//! Moves terminal records to the dead-letter queue.

use std::sync::Arc;

use tracing::error;

use crate::error::chain;
use crate::failed::{Cause, DeadLetters};
use crate::record::{CorrelationId, Message};
use crate::report::{Outcome, Report};

/// The move of a terminal record to the dead-letter queue, with its cause.
pub(super) struct DeadLetterMove<'a> {
    pub(super) dead_letters: &'a dyn DeadLetters,
    pub(super) record: usize,
    pub(super) message: Arc<Message>,
    pub(super) cause: Cause,
}

impl DeadLetterMove<'_> {
    pub(super) async fn carried_out(self) -> (usize, Report) {
        let (message, cause) = (self.message, self.cause);
        let mut report = Report::new(Outcome::Terminal);
        match self.dead_letters.send(&message, &cause).await {
            Ok(()) => report.acknowledged = true,
            Err(error) => error!(
                target: "sqs_once::dead_letters",
                message_id = message.id(),
                correlation_id = message.correlation_id().map(CorrelationId::as_str),
                error = chain(&*error),
                "a terminal record could not be moved to the dead-letter queue"
            ),
        }
        (self.record, report.because(cause.chain))
    }
}
