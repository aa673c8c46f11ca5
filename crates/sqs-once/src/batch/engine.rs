//! What stays the same from batch to batch.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::disposition::DeadLetters;
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
    /// Never notice it: no fingerprint is computed or stored, and the key alone makes a duplicate.
    Ignore,
}

/// What becomes of a record without a business key, that is, whose extractor says
/// [`KeyError::Missing`](crate::KeyError::Missing). A key that is empty, too long or of the wrong
/// kind, and an extractor that fails, are terminal whatever is set here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// It is terminal: no retry brings a key (the default).
    #[default]
    Terminal,
    /// It runs without any protection: nothing is claimed or recorded, and every delivery of the
    /// message runs. Its line in the log is a warning that says so.
    ///
    /// The extractors work all the same, for the single message in place of the event: the
    /// [`IdempotencyToken`](crate::IdempotencyToken) and the [`Key`](crate::Key) are made of the
    /// message id, which a message that is sent again or redriven does not keep, and the fence is
    /// that of a first claim.
    ProcessUnprotected,
    /// It goes back to the queue, until the queue's redrive policy moves it.
    Retry,
}

/// What every batch of a consumer runs with.
pub(crate) struct Engine {
    pub(crate) handler: Arc<dyn PrepareRecord<()>>,
    pub(crate) idempotency: Idempotency,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) mismatch: PayloadMismatch,
    pub(crate) missing_key: MissingKey,
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
}
