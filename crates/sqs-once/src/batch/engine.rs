//! What stays the same from batch to batch.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use tracing::{Instrument, error};

use crate::disposition::DeadLetters;
use crate::handler::PrepareRecord;
use crate::idempotency::Idempotency;
use crate::record::Message;

use super::ledger::Ledger;
use super::run::Run;
use super::{Deadline, Report};

/// What becomes of a message whose key was completed for another payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadMismatch {
    /// Acknowledge it as the duplicate its key says it is, with a warning in the log (the default).
    #[default]
    Warn,
    /// Fail it: it ends in the dead-letter queue, where a person looks at it.
    Reject,
}

/// Runs batches for one consumer.
pub(crate) struct Engine {
    pub(crate) handler: Arc<dyn PrepareRecord<()>>,
    pub(crate) idempotency: Idempotency,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) mismatch: PayloadMismatch,
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
}

impl Engine {
    /// Runs a batch and reports on every record, in the batch's order, before the deadline.
    pub(crate) async fn run(
        self: Arc<Self>,
        messages: Vec<Message>,
        deadline: Deadline,
    ) -> Vec<Report> {
        let ledger = Ledger::new(messages.into_iter().map(Arc::new).collect());
        // A task of its own, so that a handler that blocks holds up its batch but not the answer.
        let mut batch = AbortOnDrop(tokio::spawn({
            let ledger = ledger.clone();
            let batch = async move { Run::new(&self, &ledger, deadline).run().await };
            batch.in_current_span()
        }));
        match timeout_at(deadline.answer_by, &mut batch.0).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                error!(%failure, "a batch ended early: its open records are returned")
            }
            Err(_) => error!("a batch did not end in time: its open records are returned"),
        }
        ledger.close()
    }
}

/// Nothing of a batch goes on once its invocation is over.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
