//! What stays the same from batch to batch.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::disposition::{AfterDeadLetter, DeadLetters, Visibility};
use crate::handler::PrepareRecord;
use crate::idempotency::Idempotency;

/// What becomes of a message whose key was completed for another payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PayloadMismatch {
    /// Acknowledge it as the duplicate its key says it is, with a warning in the log (the default).
    #[default]
    Warn,
    /// Fail it: it ends in the dead-letter queue, where a person looks at it.
    Reject,
}

/// What every batch of a consumer runs with.
pub(crate) struct Engine {
    pub(crate) handler: Arc<dyn PrepareRecord<()>>,
    pub(crate) idempotency: Idempotency,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) mismatch: PayloadMismatch,
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
    pub(crate) visibility: Option<Arc<dyn Visibility>>,
    pub(crate) after_dead_letter: AfterDeadLetter,
}
